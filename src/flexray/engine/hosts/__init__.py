"""Where parties and server live. Ray is imported in ``ray_runtime`` only."""
