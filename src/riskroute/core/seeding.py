"""Random streams by identity: the draws of a task depend on its identity, never on when or where it runs.

Processors differ in the last bits of a sum. Identities therefore consist of the user's input and of rounded numbers
(`seeding_hash`, `seeding_digest`), so one seed gives the same draws on every machine.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from riskroute.core.arrays import Floats
from riskroute.core.errors import InputError
from riskroute.core.text import described
from riskroute.core.validation import instance_of, whole_number


def seed_stream(seed: int, *identity: str | int) -> np.random.SeedSequence:
    """Return the seed sequence of the task named by ``identity``, for example ``("rise", 7, "noise")``."""
    key = tuple(int(word) for word in np.frombuffer(_digest(identity)[:16], dtype="<u4"))
    return np.random.SeedSequence(whole_number("seed", seed, minimum=0), spawn_key=key)


def seeded_uniform(seed: int, *identity: str | int) -> float:
    """Hash ``seed`` and ``identity`` to a uniform number on (0, 1]; faster than a draw from `seed_stream`."""
    return (int.from_bytes(_digest((seed, *identity))[:8]) + 1) / 2.0**64


def _digest(identity: tuple[str | int, ...]) -> bytes:
    """Hash an identity; 7 and "7" differ."""
    return hashlib.sha256("\x1f".join([f"{type(part).__name__}:{part}" for part in identity]).encode()).digest()


def checked_rng(rng: np.random.Generator) -> np.random.Generator:
    """Return ``rng``; raise `InputError` unless it is a NumPy generator."""
    return instance_of("rng", rng, np.random.Generator, "a numpy.random.Generator")


def _coarse(value: Any) -> Any:
    """Round floats in a JSON value to about six digits; in a list of numbers, relative to the largest number."""
    if isinstance(value, dict):
        return {key: _coarse(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        if any(isinstance(item, float) for item in value) and all(isinstance(item, int | float) for item in value):
            largest = max(abs(item) for item in value) or 1.0
            return [f"{largest:.6e}", *(round(1e6 * item / largest) for item in value)]
        return [_coarse(item) for item in value]
    return f"{value:.6e}" if isinstance(value, float) else value


def seeding_hash(value: Any, digits: int = 16, *, coarse: bool = False) -> str:
    """Hash a JSON-serialisable value to ``digits`` hexadecimal digits; the order of keys does not matter.

    With ``coarse``, floats are rounded to about six digits first.
    """
    return hashlib.sha256(json.dumps(_coarse(value) if coarse else value, sort_keys=True).encode()).hexdigest()[:digits]


def seeding_digest(matrix: Floats) -> str:
    """Hash a matrix ``(n, d)`` after rounding every column to a grid of about 2^-32 times its largest entry."""
    largest = np.abs(matrix).max(axis=0, initial=0.0)
    exponent = np.frexp(largest * (1 + 1e-9))[1]  # numbers just below a power of two get the exponent above it
    steps = np.rint(np.ldexp(matrix, -exponent) * 2.0**32).astype("<i8")
    return hashlib.sha256(steps.tobytes() + exponent.astype("<i4").tobytes()).hexdigest()[:16]


def seeded_generator(seed: int | np.random.SeedSequence | None) -> np.random.Generator:
    """Return a generator with the given seed; if it is None, draws are unpredictable."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise InputError(f"seed must be a non-negative integer or a SeedSequence, was {described(seed)}") from None
