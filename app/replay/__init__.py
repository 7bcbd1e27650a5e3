"""A saved turn (docs/replay.md) is read, run again through the same session, and compared with itself."""
