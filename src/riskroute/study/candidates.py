"""Candidates: the routers that a backtest can compare, and which of them it plays."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from riskroute.learning.registry import BASELINES, POLICIES
from riskroute.routers.policy_router import PolicyRouter
from riskroute.routers.registry import NAMES as ROUTER_NAMES
from riskroute.routers.registry import (
    ROUTERS,
    is_file_router,
    make_file_router,
    make_router,
    router_name,
    router_parameters,
    router_source,
)
from riskroute.routers.router import Router
from riskroute.simulation.clairvoyant import Clairvoyant

CLAIRVOYANT = Clairvoyant.name
FITTED = ("static", "static+sweep")  # their parameters are fitted on the training days
BENCHMARKS = ("dark-first+sweep", "dark-first+post+sweep", "rest-even+sweep", "sweep")  # one becomes the benchmark
NAMES = (*ROUTER_NAMES, CLAIRVOYANT)  # every router that can be backtested


@dataclass(frozen=True)
class Candidate:
    """A router to play, given by name and parameters or as an object in its starting state, with its label in tables.

    For a router from a file (``FILE.py:CLASS``), ``source`` is the text of the file. Other processes and machines
    therefore play the same code, and an edited file invalidates cached results. ``held_out`` has one candidate for each
    fold of the training orders: a fit to the other folds, which is scored on this one.
    """

    label: str
    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    begins_as: Router | None = None
    source: str = ""
    held_out: tuple[Candidate, ...] = ()

    def make(self) -> Router:
        """Return a new router in its starting state."""
        if self.begins_as is not None:
            return copy.deepcopy(self.begins_as)
        if self.source:
            return make_file_router(self.name, self.parameters, self.source)
        return Clairvoyant() if self.name == CLAIRVOYANT else make_router(self.name, **self.parameters)


def named_candidate(text: str) -> Candidate:
    """Return the candidate for NAME, NAME:KEY=VALUE,... or FILE.py:CLASS.

    Examples
    --------
    >>> named_candidate("dark-first+sweep:mode=parallel,cap=500").parameters
    {'mode': 'parallel', 'cap': 500}
    """
    label = canonical_candidate_name(text)
    name, parameters = router_parameters(label)
    candidate = Candidate(label, name, parameters, source=router_source(name) if is_file_router(name) else "")
    candidate.make()  # reports bad parameters before any day is prepared
    return candidate


def canonical_candidate_name(text: str) -> str:
    """Return ``text`` (NAME, NAME:KEY=VALUE,... or FILE.py:CLASS) with the registered spelling of the name.

    Examples
    --------
    >>> canonical_candidate_name("Dark-First+Sweep:cap=500")
    'dark-first+sweep:cap=500'
    """
    name, _ = router_parameters(text)
    return text if is_file_router(name) else router_name(name, NAMES) + text[len(name) :]


def check_candidates(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the canonical names of routers; raise `InputError` if one cannot be made with its parameters.

    Examples
    --------
    >>> check_candidates(["Sweep:discretion=1", "all"])
    ('sweep:discretion=1', 'all')
    """
    return tuple(text if text == "all" else named_candidate(text).label for text in texts)


def candidate_names(asked: Sequence[str], *, pools: bool, horizon: float, train: int | None = None) -> list[str]:
    """Return the routers to play: the ``asked`` ones and the benchmark rules; if none are asked for, a default list.

    If ``train`` is 0, the default list and ``all`` omit the routers that are fitted on training days.

    Examples
    --------
    >>> candidate_names(["spray"], pools=True, horizon=0.0)
    ['sweep', 'dark-first+sweep', 'spray']
    """
    dark = ["dark-first+sweep"] if pools else []
    simple = ["sweep", "raw-sweep", "nbbo", "spray", "primary", *dark]
    resting = ["dark-first+post+sweep", *(["rest-even+sweep"] if pools else [])] if horizon > 0 else []
    fitted = FITTED if train != 0 else ()
    asked = check_candidates(asked)
    if "all" in asked:
        others = [name for name in ROUTERS if name not in (*simple, *resting, *FITTED, PolicyRouter.name)]
        policies = [name for name in POLICIES if name not in BASELINES]
        named = [text for text in asked if text != "all"]
        return list(dict.fromkeys([*simple, *resting, *fitted, *others, *policies, CLAIRVOYANT, *named]))
    if not asked:
        return [*simple, *resting, *fitted, CLAIRVOYANT]
    return list(dict.fromkeys(["sweep", *dark, *resting, *asked]))
