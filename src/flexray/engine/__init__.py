"""A run: its participants, the driver of its rounds, the hosts that hold them."""
