"""Parley: a self-hosted, real-time voice assistant."""

__version__ = "0.1.0"
