"""The one shape that sound has inside Parley.

PCM is mono, 16-bit signed, in one-dimensional numpy arrays. What the user says travels at
``INPUT_RATE_HZ`` in frames of ``FRAME_MS``; what the assistant says travels at
``OUTPUT_RATE_HZ``. Transports convert at the edge, statefully, and nothing else resamples.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Pcm: TypeAlias = NDArray[np.int16]
"""Mono samples, shape ``[n]``, dtype int16."""

INPUT_RATE_HZ = 16_000
OUTPUT_RATE_HZ = 48_000
FRAME_MS = 20
INPUT_FRAME = INPUT_RATE_HZ * FRAME_MS // 1000  # 320 samples
OUTPUT_FRAME = OUTPUT_RATE_HZ * FRAME_MS // 1000  # 960 samples
