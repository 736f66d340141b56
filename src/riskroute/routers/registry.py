"""Routers by name, and routers of your own from a file: ``FILE.py:CLASS``."""

from __future__ import annotations

import difflib
import hashlib
import inspect
import json
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from riskroute.core.errors import InputError, RiskrouteError, StateError, described, one_line_error, shown
from riskroute.learning.policies.baselines import Oracle
from riskroute.learning.registry import POLICIES
from riskroute.routers.contextual.router import Contextual, ContextualGreedy, ContextualIds
from riskroute.routers.literature.bayes_fill import BayesFill
from riskroute.routers.literature.cmab import Cmab
from riskroute.routers.literature.cont_kukanov import ContKukanov, DarkFirstContKukanov
from riskroute.routers.literature.expgrad import Exp3, ExpGrad
from riskroute.routers.literature.kaplan_meier import KaplanMeier, ParMl, RaUcb
from riskroute.routers.literature.lagrangian import Lagrangian, Reinforcement
from riskroute.routers.policy_router import PolicyRouter
from riskroute.routers.router import FEEDBACK, Router, parameter_names
from riskroute.routers.rules import (
    DarkFirst,
    DarkFirstPost,
    Delay,
    Hidden,
    Nbbo,
    Primary,
    RawSweep,
    RestEven,
    Spray,
    StaticSplit,
    StaticSweep,
    Sweep,
)

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


NAMES = (
    *(name for name in ROUTERS if name != PolicyRouter.name),
    *(name for name in POLICIES if name != Oracle.name),
)
"""Routers that can be asked for: all but the oracle policy, which would have to be told the best split."""


def router_name(name: Any, names: Sequence[str] = (*ROUTERS, *POLICIES)) -> str:
    """Return the name of a router as it is spelled, whatever its case, or raise with the nearest one.

    Examples
    --------
    >>> router_name("Dark-First+Sweep")
    'dark-first+sweep'
    >>> router_name("contextul")
    Traceback (most recent call last):
    ...
    riskroute.core.errors.InputError: unknown router 'contextul'; did you mean 'contextual'?
    """
    spelled = {one.casefold(): one for one in names}
    asked = name.casefold() if isinstance(name, str) else ""
    if asked in spelled:
        return spelled[asked]
    near = difflib.get_close_matches(asked, spelled, n=1)
    hint = f"; did you mean {spelled[near[0]]!r}?" if near else ""
    raise InputError(f"unknown router {shown(name)}{hint}")


def make_router(name: str, **parameters: Any) -> Router:
    """Make a router by its name; the name of a policy makes the router that plays it.

    ``FILE.py:CLASS`` makes a router of your own; see `file_router`.

    Examples
    --------
    >>> make_router("dark-first+sweep", mode="parallel")
    DarkFirst(mode='parallel', memory_weight=0.95, cap=None, min_saving=0.0)
    """
    if in_file(name):
        return file_made(name, file_router(name), parameters)
    known = router_name(name)
    if known in POLICIES:
        return _made(known, PolicyRouter, {"policy": known, **parameters})
    return _made(known, ROUTERS[known], parameters)


def _made(name: str, kind: type[Router], parameters: Mapping[str, Any]) -> Router:
    known = parameter_names(kind)
    if unknown := [one for one in parameters if one not in known]:
        raise InputError(f"parameters of {name} must be among {', '.join(known) or 'none'}, was {', '.join(unknown)}")
    return kind(**parameters)


def router_parameters(text: str) -> tuple[str, dict[str, Any]]:
    """Return name and parameters of a router from a text NAME or NAME:KEY=VALUE,...

    The name may be FILE.py:CLASS.

    Examples
    --------
    >>> router_parameters("dark-first+sweep:mode=parallel,cap=500")
    ('dark-first+sweep', {'mode': 'parallel', 'cap': 500})
    >>> router_parameters("own/halves.py:Halves:lots=2")
    ('own/halves.py:Halves', {'lots': 2})
    """
    found = re.match(r"((?:.*?\.py:)?[^:]*):?(.*)", text, re.DOTALL)
    name, given = found.groups() if found else (text, "")
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


def in_file(name: Any) -> bool:
    """Whether a name stands for a class in a file of your own.

    Examples
    --------
    >>> in_file("own/halves.py:Halves"), in_file("sweep")
    (True, False)
    """
    return isinstance(name, str) and (".py:" in name or name.endswith(".py"))


def file_source(name: str) -> str:
    """Return the text of the file that a name FILE.py:CLASS stands for."""
    path = name.rpartition(".py")[0] + ".py"
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a text in UTF-8"
        raise InputError(f"file of router {name} must be readable, was {path!r}: {reason}") from None


def file_router(name: str, source: str | None = None) -> type[Router]:
    """Return the class that a name FILE.py:CLASS stands for: a router of your own.

    Parameters
    ----------
    source : str, optional
        The text of the file, for a process that may be on another machine; read from the file if None. The file may
        import what is installed, but not the files beside it.
    """
    return _file_router(name, file_source(name) if source is None else source)


def file_made(name: str, kind: type[Router], parameters: Mapping[str, Any]) -> Router:
    """Make a router of a class from a file; whatever its code raises is an `InputError` that names file and class."""
    try:
        return _made(name, kind, parameters)
    except RiskrouteError:
        raise
    except Exception as error:
        raise InputError(f"{name} cannot be made: {type(error).__name__}: {one_line_error(error)}") from error


@cache
def _file_router(name: str, source: str) -> type[Router]:
    path, _, wanted = name.rpartition(".py")
    path, wanted = f"{path}.py", wanted.removeprefix(":")
    module = _module(path, source)
    own = {
        key: value
        for key, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Router) and value.__module__ == module.__name__
    }
    there = f"{path} defines {', '.join(own)}" if own else f"{path} defines no router"
    if not wanted:
        raise InputError(f"router in a file must be FILE.py:CLASS, was {name!r}; {there}")
    kind = vars(module).get(wanted)
    if kind is None:
        raise InputError(f"{path} must define the class {wanted}, does not; {there}")
    if not (isinstance(kind, type) and issubclass(kind, Router)):
        raise InputError(f"{wanted} in {path} must be a subclass of riskroute.routers.Router, is not; {there}")
    if inspect.isabstract(kind):
        missing = ", ".join(sorted(kind.__abstractmethods__))
        raise InputError(f"{wanted} in {path} must implement {missing}, does not")
    if not isinstance(getattr(kind, "name", None), str):
        raise InputError(f"{wanted} in {path} must have a name, such as name = {wanted.lower()!r}")
    if kind.name in (*ROUTERS, *POLICIES):  # a saved state names its router
        raise InputError(f"name of {wanted} in {path} must be its own, was {kind.name!r}, a router of riskroute")
    if kind.feedback not in FEEDBACK:
        raise InputError(f"feedback of {wanted} in {path} must be one of {', '.join(FEEDBACK)}, was {kind.feedback!r}")
    return kind


@cache
def _module(path: str, source: str) -> ModuleType:
    """Run the text of a file as a module, once in every process."""
    module = ModuleType(f"riskroute_own_{hashlib.sha256(f'{path}:{source}'.encode()).hexdigest()[:16]}")
    module.__file__ = path
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:
        exec(compile(source, path, "exec"), vars(module))
    except Exception as error:
        del sys.modules[module.__name__]
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
        where = f" in line {line}" if line else ""
        raise InputError(f"{path} must run, failed{where}: {type(error).__name__}: {one_line_error(error)}") from error
    cloudpickle.register_pickle_by_value(module)  # other processes cannot import it
    return module


def about_router(name: str, more: Mapping[str, type] | None = None) -> str:
    """Return the first line of the documentation of a router or policy; ``more`` has classes that are not here.

    Examples
    --------
    >>> about_router("spray")
    'Take from all venues at once, in proportion to what each displays, whatever the price.'
    """
    kind = {**ROUTERS, **POLICIES, **(more or {})}[name]
    return (kind.__doc__ or "").strip().splitlines()[0]


def restore_router(state: Any) -> Router:
    """Rebuild the router of a saved state, whichever it is.

    Examples
    --------
    >>> restore_router(make_router("sweep", discretion=1).state())
    Sweep(discretion=1, minimums={})
    """
    if not isinstance(state, dict) or not isinstance(state.get("router"), str):
        raise StateError(f"state must be one that a router's state() returned, was {described(state)}")
    if state["router"] not in ROUTERS:
        raise StateError(
            f"state must be one that a router's state() returned, was of the unknown router {shown(state['router'])}; "
            "if it is your own, give its class as FILE.py:CLASS"
        )
    return ROUTERS[state["router"]].restore(state)
