"""Parley: a self-hosted, real-time voice assistant."""

import os

__version__ = "0.1.0"

# Libraries that would tell their makers what runs here. What is said and done stays on the machine, so this comes before
# any of them can be imported; whoever wants it otherwise has set the variable themselves.
for _switch in ("ORT_DISABLE_TELEMETRY", "HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
    os.environ.setdefault(_switch, "1")
