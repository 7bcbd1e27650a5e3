"""How long a step will take: a small model fitted to the steps that have run."""

from __future__ import annotations

_FORGETTING = 0.98
_FEATURES = 3
_NOISE_MS2 = 25.0
"""Variance of a step's time that the model should not try to explain."""
_SPREAD = (100.0, 1.0, 1.0)
"""How far (squared) the weights may be from their first guess."""
_LEAST = (0.1, 0.001, 0.0)


class StepCost:
    """milliseconds = a + b * tokens + c * thousand attended positions, by recursive least squares.

    Forgets with 0.98 per step, so it follows a machine that gets busier. Haykin, Adaptive Filter
    Theory, chapter on RLS. Weights are kept above zero: more work never takes less time.
    """

    def __init__(self) -> None:
        self._weights = [10.0, 0.5, 0.1]
        self._covariance = _first_covariance()

    def predict_ms(self, tokens: int, attended: int) -> float:
        """``attended`` is the sum over rows of the positions each looks at."""
        features = (1.0, float(tokens), attended / 1000.0)
        return sum(weight * feature for weight, feature in zip(self._weights, features, strict=True))

    def observe(self, tokens: int, attended: int, took_ms: float) -> None:
        features = (1.0, float(tokens), attended / 1000.0)
        projected = [sum(row[j] * features[j] for j in range(_FEATURES)) for row in self._covariance]
        denominator = _FORGETTING * _NOISE_MS2 + sum(features[i] * projected[i] for i in range(_FEATURES))
        gain = [value / denominator for value in projected]
        error = took_ms - sum(self._weights[i] * features[i] for i in range(_FEATURES))
        self._weights = [max(_LEAST[i], self._weights[i] + gain[i] * error) for i in range(_FEATURES)]
        self._covariance = [
            [(self._covariance[i][j] - gain[i] * projected[j]) / _FORGETTING for j in range(_FEATURES)]
            for i in range(_FEATURES)
        ]
        # Steps that are all alike would let the covariance grow without end.
        if any(self._covariance[i][i] > 10.0 * _SPREAD[i] for i in range(_FEATURES)):
            self._covariance = _first_covariance()


def _first_covariance() -> list[list[float]]:
    return [[_SPREAD[row] if row == column else 0.0 for column in range(_FEATURES)] for row in range(_FEATURES)]
