"""Random streams by identity: what a task draws depends on what it is, never on when or where it runs."""

from __future__ import annotations

import hashlib

import numpy as np

from riskroute.errors import whole_number


def stream(seed: int, *identity: str | int) -> np.random.SeedSequence:
    """Seed sequence of the task named by ``identity``, for example ``("rise", 7, "noise")``.

    >>> a, b = stream(1, "rise", 7), stream(1, "rise", 8)
    >>> bool((a.generate_state(2) == b.generate_state(2)).any())
    False
    """
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in identity)
    digest = hashlib.sha256(text.encode()).digest()
    key = tuple(int(word) for word in np.frombuffer(digest[:16], dtype="<u4"))
    return np.random.SeedSequence(whole_number("seed", seed, minimum=0), spawn_key=key)
