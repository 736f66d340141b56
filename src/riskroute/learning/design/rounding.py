"""Rounding of design weights to whole numbers of rounds."""

from __future__ import annotations

import numpy as np

from riskroute.core.arrays import Floats, Integers
from riskroute.core.errors import InputError
from riskroute.core.validation import finite_array, real_number, whole_number

LARGEST = 2**62  # maximum number of rounds: counts are 64-bit integers

_SLACK = 1e-12  # relative tolerance for ties: rounding errors must not move a round


def _weights(weights: Floats) -> Floats:
    checked = finite_array("weights", weights, ndim=1)
    if (checked < 0).any() or checked.max() <= 0:
        raise InputError(f"weights must be non-negative with a positive sum, was {checked.tolist()[:6]}")
    parts = checked / checked.max()  # scale first: a sum of very large weights may overflow
    return np.asarray(parts / parts.sum())


def round_up_counts(weights: Floats, rounds: float) -> Integers:
    """Round ``rounds * weights`` up, as the paper defines ``n_a``; the total may exceed ``rounds``."""
    rounds = real_number("rounds", rounds, minimum=0, maximum=LARGEST)
    return _ceil(rounds * _weights(weights))


def _ceil(values: Floats) -> Integers:
    """Round up, but ignore rounding errors above a whole number."""
    return np.ceil(values * (1 - _SLACK)).astype(np.int64)


def round_exact_counts(weights: Floats, rounds: int) -> Integers:
    """Apportion exactly ``rounds`` rounds by weight (efficient rounding, Pukelsheim and Rieder 1992).

    Every positive weight gets at least one round if there are enough rounds; otherwise the largest weights get one
    each. Ties go to the earlier entry.
    """
    part = _weights(weights)
    rounds = whole_number("rounds", rounds, minimum=0, maximum=LARGEST)
    counts = np.zeros(len(part), dtype=np.int64)
    positive = np.flatnonzero(part > 0)
    if rounds < len(positive):
        counts[np.argsort(-part.round(12), kind="stable")[:rounds]] = 1
        return counts
    w = part[positive]
    n = _ceil((rounds - len(w) / 2) * w).clip(1)
    while (excess := int(n.sum()) - rounds) != 0:
        if excess < 0:
            deficit = n / w
            n[np.argmax(deficit <= deficit.min() * (1 + _SLACK))] += 1  # ties: the first entry
        else:
            surplus = np.where(n > 1, (n - 1) / w, -1.0)
            n[np.flatnonzero(surplus >= surplus.max() * (1 - _SLACK))[-1]] -= 1  # ties: the last entry
    counts[positive] = n
    return counts


def round_even_counts(rounds: int, parts: int) -> Integers:
    """Divide ``rounds`` into at most ``parts`` positive counts that differ by at most one, larger counts first."""
    parts = min(rounds, parts)
    each, left = divmod(rounds, parts)
    return np.array([each + 1] * left + [each] * (parts - left), dtype=np.int64)
