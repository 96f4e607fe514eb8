"""The driver: runs the rounds (or VAFL's turns) of an experiment, on the virtual clock or in real seconds."""
