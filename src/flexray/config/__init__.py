"""From typed words to objects: what Hydra composes becomes a :class:`flexray.config.job.Job`."""
