"""A run, without knowing who asked for it: its participants, the driver of its rounds, the hosts that hold them."""
