"""kernels.c as Python sees it: the same structs, and the few functions that it offers."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_double, c_float, c_int, c_int32, c_int64, c_void_p
from pathlib import Path

from app.errors import ModelError

UNIT = 32
"""Columns of a packed weight that lie together."""
BLOCK = 32
"""Tokens of a block."""
STAGES = ("norms", "qkv", "place", "attention", "out", "gate_up", "down", "head")
"""Kinds of stages, in the order in which ``Step.spent`` has their seconds."""


class Linear(Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("weight", "bias", "scale")),
        ("units", c_int64),
        ("inner", c_int64),
    )


class Layer(Structure):
    _fields_ = (
        *((name, Linear) for name in ("qkv", "out", "gate_up", "down")),
        *((name, c_void_p) for name in ("norm_in", "norm_mid", "norm_q", "norm_k", "keys", "values")),
        ("window", c_int64),
        ("rotate", c_int64),
    )


_SIZES = ("hidden", "heads", "kv_heads", "head_dim", "inner", "layers", "vocabulary", "blocks")


class Model(Structure):
    _fields_ = (
        *((name, c_int64) for name in _SIZES),
        ("eps", c_float),
        ("scale", c_float),
        ("layer", POINTER(Layer)),
        ("head", Linear),
        ("embedding", POINTER(Linear)),
        ("norm_out", c_void_p),
        ("cos", c_void_p),
        ("sin", c_void_p),
    )


class Span(Structure):
    _fields_ = (("row", c_int64), ("rows", c_int64), ("start", c_int64), ("blocks", c_void_p))


class Step(Structure):
    _fields_ = (
        *((name, c_int64) for name in ("rows", "spans", "wanted")),
        *((name, POINTER(c_int32)) for name in ("ids", "positions", "span_of")),
        ("span", POINTER(Span)),
        ("wanted_rows", POINTER(c_int32)),
        ("logits", c_void_p),
        ("spent", POINTER(c_double)),
    )


class Kernels:
    """The loaded library. Calls release the interpreter lock."""

    def __init__(self, path: Path) -> None:
        """Raises ModelError if the library is not the one that this file describes."""
        library = ctypes.CDLL(str(path))
        self.pack = library.parley_pack
        self.pack.argtypes = (c_void_p, c_int64, c_int64, c_int, c_void_p)
        self.pack_int8 = library.parley_pack_int8
        self.pack_int8.argtypes = (c_void_p, c_int64, c_int64, c_int, c_void_p, c_void_p)
        self.large_pages = library.parley_large_pages
        self.large_pages.argtypes = (c_void_p, c_int64)
        self.crew = library.parley_crew
        self.crew.argtypes, self.crew.restype = (c_int,), c_void_p
        self.dismiss = library.parley_dismiss
        self.dismiss.argtypes = (c_void_p,)
        self.step = library.parley_step
        self.step.argtypes, self.step.restype = (c_void_p, POINTER(Model), POINTER(Step)), c_int
        sizes = (c_int64 * 5)()
        library.parley_sizes(sizes)
        if list(sizes) != [ctypes.sizeof(struct) for struct in (Linear, Layer, Model, Span, Step)]:
            raise ModelError(f"{path} does not belong to this version of Parley: remove it, and it is built anew")
