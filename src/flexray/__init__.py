"""flexray: vertical federated learning on a Ray cluster, on a virtual clock."""

__version__ = "0.1.0"
