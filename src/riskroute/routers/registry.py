"""Routers by name."""

from __future__ import annotations

import json
from typing import Any

from riskroute.errors import InputError, StateError, described
from riskroute.learning.registry import POLICIES
from riskroute.routers.bayes_fill import BayesFill
from riskroute.routers.cmab import Cmab
from riskroute.routers.cont_kukanov import ContKukanov, DarkFirstContKukanov
from riskroute.routers.contextual import Contextual, ContextualGreedy
from riskroute.routers.contextual_ids import ContextualIds
from riskroute.routers.dark_first import DarkFirst, DarkFirstPost
from riskroute.routers.delay import Delay
from riskroute.routers.exp3 import Exp3
from riskroute.routers.expgrad import ExpGrad
from riskroute.routers.hidden import Hidden
from riskroute.routers.kaplan_meier import KaplanMeier
from riskroute.routers.lagrangian import Lagrangian
from riskroute.routers.nbbo import Nbbo
from riskroute.routers.parml import ParMl
from riskroute.routers.policy_router import PolicyRouter
from riskroute.routers.primary import Primary
from riskroute.routers.ra_ucb import RaUcb
from riskroute.routers.reinforcement import Reinforcement
from riskroute.routers.rest_even import RestEven
from riskroute.routers.router import Router
from riskroute.routers.spray import Spray
from riskroute.routers.static_split import StaticSplit, StaticSweep
from riskroute.routers.sweep import RawSweep, Sweep
from riskroute.validation import one_of

ROUTERS: dict[str, type[Router]] = {
    kind.name: kind
    for kind in (
        *(Sweep, RawSweep, Primary, Spray, Nbbo),
        *(DarkFirst, DarkFirstPost, RestEven),
        *(Hidden, Delay, ContKukanov, DarkFirstContKukanov, BayesFill),
        *(KaplanMeier, ParMl, ExpGrad, Exp3, Lagrangian, Reinforcement, Cmab, RaUcb),
        *(Contextual, ContextualGreedy, ContextualIds),
        *(StaticSplit, StaticSweep, PolicyRouter),
    )
}
"""All routers, by name; a name joins what a router does first and what it does next by a plus."""


def make_router(name: str, **parameters: Any) -> Router:
    """Make a router by its name; the name of a policy makes the router that plays it.

    Examples
    --------
    >>> make_router("dark-first+sweep", mode="parallel")
    DarkFirst(mode='parallel', memory_weight=0.95, cap=None, min_saving=0.0)
    """
    if isinstance(name, str) and name in POLICIES:
        return make_router(PolicyRouter.name, policy=name, **parameters)
    kind = ROUTERS[one_of("router", name, (*ROUTERS, *POLICIES))]
    try:
        return kind(**parameters)
    except TypeError:
        known = ", ".join(kind().parameters) or "none"
        raise InputError(f"parameters of {name} must be among {known}, was {', '.join(parameters)}") from None


def router_parameters(text: str) -> tuple[str, dict[str, Any]]:
    """Return name and parameters of a router from a text NAME or NAME:KEY=VALUE,...

    Examples
    --------
    >>> router_parameters("dark-first+sweep:mode=parallel,cap=500")
    ('dark-first+sweep', {'mode': 'parallel', 'cap': 500})
    """
    name, _, given = text.partition(":")
    parameters: dict[str, Any] = {}
    for part in given.split(",") if given else []:
        key, equals, value = part.partition("=")
        if not (key and equals and value):
            raise InputError(f"parameters of a router must be NAME=VALUE with commas between, was {part!r}")
        try:
            parameters[key.strip()] = json.loads(value)
        except ValueError:
            parameters[key.strip()] = value.strip()
    return name, parameters


def restore_router(state: Any) -> Router:
    """Rebuild the router of a saved state, whichever it is.

    Examples
    --------
    >>> restore_router(make_router("sweep", discretion=1).state())
    Sweep(discretion=1, minimums={})
    """
    if not isinstance(state, dict) or state.get("router") not in ROUTERS:
        raise StateError(f"state must be one that a router's state() returned, was {described(state)}")
    return ROUTERS[state["router"]].restore(state)
