"""What a router believes of a venue or a pool, in numbers that people can read."""

from __future__ import annotations

from typing import NamedTuple


class PlaceBelief(NamedTuple):
    """One belief about one venue or pool.

    Attributes
    ----------
    place : str
        The venue or pool.
    what : str
        What the number is, in a few words.
    mean : float
        What is expected.
    deviation : float or None
        Standard deviation of the belief; None if the router does not know how sure it is.
    unit : str
        Unit of both: ``bp``, ``$/share`` or ``probability``.
    seen : float or None
        Number of outcomes that it rests on; None if they are not counted.
    symbol : str
        The symbol that it is about; empty for all.
    """

    place: str
    what: str
    mean: float
    deviation: float | None
    unit: str
    seen: float | None = None
    symbol: str = ""
