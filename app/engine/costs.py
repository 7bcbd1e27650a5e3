"""How long a step will take: a small model fitted to the steps that have run."""

from __future__ import annotations

_FORGETTING = 0.98
_FEATURES = 3
_NOISE_MS2 = 25.0
"""Variance of a step's time that the model should not try to explain."""
_SPREAD = (100.0, 1.0, 1.0)
"""How far (squared) the weights may be from their first guess."""
_LEAST = (0.1, 0.001, 0.0)
_FIRST_TRUST = 64
"""Rows that the first guess is believed for."""


class StepCost:
    """milliseconds = a + b * tokens + c * thousand attended positions, by recursive least squares.

    Forgets with 0.98 per step, so it follows a machine that gets busier. Haykin, Adaptive Filter
    Theory, chapter on RLS. Weights are kept above zero: more work never takes less time.
    """

    def __init__(self) -> None:
        self._weights = [10.0, 0.5, 0.1]
        self._covariance = _first_covariance()
        self.trusted_tokens = _FIRST_TRUST
        """Larger steps have not been seen, nor anything like them: a prediction may be far off."""

    def predict_ms(self, tokens: int, attended: int) -> float:
        """``attended`` is the sum over rows of the positions each looks at."""
        a, b, c = self._weights
        return a + b * tokens + c * attended / 1000.0

    def observe(self, tokens: int, attended: int, took_ms: float) -> None:
        self.trusted_tokens = max(self.trusted_tokens, 2 * tokens)
        x, y = float(tokens), attended / 1000.0
        (p00, p01, p02), (_, p11, p12), (_, _, p22) = self._covariance
        k0, k1, k2 = p00 + p01 * x + p02 * y, p01 + p11 * x + p12 * y, p02 + p12 * x + p22 * y
        scale = 1.0 / (_FORGETTING * _NOISE_MS2 + k0 + k1 * x + k2 * y)
        a, b, c = self._weights
        error = (took_ms - a - b * x - c * y) * scale
        self._weights = [
            max(_LEAST[0], a + k0 * error),
            max(_LEAST[1], b + k1 * error),
            max(_LEAST[2], c + k2 * error),
        ]
        q00, q01, q02 = p00 - k0 * k0 * scale, p01 - k0 * k1 * scale, p02 - k0 * k2 * scale
        q11, q12, q22 = p11 - k1 * k1 * scale, p12 - k1 * k2 * scale, p22 - k2 * k2 * scale
        grown = 1.0 / _FORGETTING
        self._covariance = [
            [q00 * grown, q01 * grown, q02 * grown],
            [q01 * grown, q11 * grown, q12 * grown],
            [q02 * grown, q12 * grown, q22 * grown],
        ]
        # Steps that are all alike would let the covariance grow without end.
        if any(self._covariance[i][i] > 10.0 * _SPREAD[i] for i in range(_FEATURES)):
            self._covariance = _first_covariance()


def _first_covariance() -> list[list[float]]:
    return [[_SPREAD[row] if row == column else 0.0 for column in range(_FEATURES)] for row in range(_FEATURES)]
