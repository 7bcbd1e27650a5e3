"""How long a step will take: a small model fitted to the steps that have run."""

from __future__ import annotations

_FORGETTING = 0.95
"""By each step of a size, for what earlier ones of that size said: some twenty of each are remembered."""
_FLOOR_MS = 5.0
"""Errors count in parts of a step's time, and in steps shorter than this not even so much."""
_GUESS = (10.0, 0.5, 0.1)
_TRUST = (1e-4, 0.04, 1.0)
"""How much the first guess counts beside the steps that were seen: a tenth of a step's time, squared, over how far
the guess may be off, squared (10 ms, 0.5 ms, 0.1 ms)."""
_SWEEPS = 4
_FIRST_TRUST = 64
"""Rows that the first guess is believed for."""


class StepCost:
    """milliseconds = a + b * tokens + c * thousand attended positions; none of the weights is negative.

    Least squares over relative errors, solved by projected Gauss-Seidel from the last solution (a
    few sweeps do, since it hardly moves). Each size of step, by powers of two, has a memory of its
    own: an hour of decoding does not wipe out what the last long prompt took.
    """

    def __init__(self) -> None:
        self._weights = _GUESS
        self._memory: dict[int, list[float]] = {}
        self._sums = [0.0] * 9
        """Of the memories: the normal equations, upper triangle by rows, and their right side."""
        self.trusted_tokens = _FIRST_TRUST
        """Larger steps have not been seen, nor anything like them: a prediction may be far off."""

    def predict_ms(self, tokens: int, attended: int) -> float:
        """``attended`` is the sum over rows of the positions each looks at."""
        a, b, c = self._weights
        return a + b * tokens + c * attended / 1000.0

    def observe(self, tokens: int, attended: int, took_ms: float) -> None:
        self.trusted_tokens = max(self.trusted_tokens, 2 * tokens)
        x, y = float(tokens), attended / 1000.0
        w = 1.0 / (took_ms + _FLOOR_MS) ** 2
        wx, wy, wt = w * x, w * y, w * took_ms
        seen = (w, wx, wy, wx * x, wx * y, wy * y, wt, wt * x, wt * y)
        before = self._memory.get(tokens.bit_length(), [0.0] * 9)
        after = [_FORGETTING * old + new for old, new in zip(before, seen, strict=True)]
        self._memory[tokens.bit_length()] = after
        self._sums = [total + new - old for total, new, old in zip(self._sums, after, before, strict=True)]
        self._solve()

    def _solve(self) -> None:
        s00, s01, s02, s11, s12, s22, r0, r1, r2 = self._sums
        a, b, c = self._weights
        for _ in range(_SWEEPS):
            a = max(0.0, (r0 + _TRUST[0] * _GUESS[0] - s01 * b - s02 * c) / (s00 + _TRUST[0]))
            b = max(0.0, (r1 + _TRUST[1] * _GUESS[1] - s01 * a - s12 * c) / (s11 + _TRUST[1]))
            c = max(0.0, (r2 + _TRUST[2] * _GUESS[2] - s02 * a - s12 * b) / (s22 + _TRUST[2]))
        self._weights = (a, b, c)
