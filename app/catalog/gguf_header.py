"""Whether a GGUF file is all there: its header is read, its tensors only measured.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import BinaryIO

_VERSIONS = (2, 3)
_SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_UINT32, _STRING, _ARRAY = 4, 8, 9
_ALIGNMENT = 32
"""Of tensors, where "general.alignment" does not say another."""


def is_cut_short(gguf: Path) -> bool:
    """Whether the file ends before what its header announces. False for a version that is not known here."""
    with gguf.open("rb") as stream:
        try:
            return _announced_bytes(stream) > gguf.stat().st_size
        except (struct.error, OverflowError, OSError):  # read, or sent, past the end
            return True
        except KeyError:  # a kind of value that came after this was written
            return False


def _announced_bytes(stream: BinaryIO) -> int:
    """Where the last tensor ends; 0 for an unknown version."""
    stream.seek(4)
    (version,) = _read(stream, "<I")
    if version not in _VERSIONS:
        return 0
    tensors, pairs = _read(stream, "<QQ")
    alignment = _ALIGNMENT
    for _ in range(pairs):
        key = _string(stream)
        (kind,) = _read(stream, "<I")
        if key == b"general.alignment" and kind == _UINT32:
            (alignment,) = _read(stream, "<I")
        else:
            _skip(stream, kind)
    end = 0
    for _ in range(tensors):
        _string(stream)
        (dimensions,) = _read(stream, "<I")
        shape = _read(stream, f"<{dimensions}Q")
        kind, offset = _read(stream, "<IQ")
        end = max(end, offset + _tensor_bytes(kind, math.prod(shape)))
    start = stream.tell()
    return start + -start % max(1, alignment) + end


def _tensor_bytes(kind: int, count: int) -> int:
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    try:
        block, size = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
    except (ValueError, KeyError):
        return 0  # a newer kind: where it begins is all that is known
    return count // int(block) * int(size)


def _skip(stream: BinaryIO, kind: int) -> None:
    """Past one value."""
    if kind == _STRING:
        _string(stream)
    elif kind == _ARRAY:
        entries, count = _read(stream, "<IQ")
        if entries in _SCALAR_BYTES:
            stream.seek(count * _SCALAR_BYTES[entries], 1)
        else:
            for _ in range(count):
                _skip(stream, entries)
    else:
        stream.seek(_SCALAR_BYTES[kind], 1)


def _string(stream: BinaryIO) -> bytes:
    """A short one; of a long one, which no key is, nothing."""
    (length,) = _read(stream, "<Q")
    if length <= 64:
        return stream.read(length)
    stream.seek(length, 1)
    return b""


def _read(stream: BinaryIO, form: str) -> tuple[int, ...]:
    """Raises struct.error at the end of the file."""
    values: tuple[int, ...] = struct.unpack(form, stream.read(struct.calcsize(form)))
    return values
