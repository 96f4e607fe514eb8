"""Parties and server: plain classes, message in, message out."""
