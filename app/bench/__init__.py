"""Measures Parley as someone who talks to it finds it."""
