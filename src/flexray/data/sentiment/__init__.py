"""Sentiment of spoken sentences (CMU-MOSEI, CMU-MOSI): parties video, audio and text, in every layout people have."""

from flexray.data.sentiment.dataset import Sentiment

__all__ = ["Sentiment"]
