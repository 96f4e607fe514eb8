"""flexray from Python: :func:`flexray.simulate`, :func:`flexray.read`, and the :class:`flexray.Run` of both."""
