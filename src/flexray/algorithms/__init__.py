"""The algorithms: given speeds and the last reports, each returns a plan."""
