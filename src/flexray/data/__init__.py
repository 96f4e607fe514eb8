"""Datasets cut by party, and seeded mini-batches."""
