"""Virtual time: speeds, links and the event clock. Nothing here reads the wall clock."""
