"""Registry of routers by name, and user-defined routers from a file: ``FILE.py:CLASS``."""

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

from riskroute.core.errors import InputError, RiskrouteError, StateError
from riskroute.core.text import described, one_line_text, shown
from riskroute.learning.policies.baselines import Oracle
from riskroute.learning.registry import POLICIES
from riskroute.routers import rules
from riskroute.routers.contextual.router import Contextual, ContextualGreedy, ContextualIds
from riskroute.routers.literature.bayes_fill import BayesFill
from riskroute.routers.literature.cmab import Cmab
from riskroute.routers.literature.cont_kukanov import ContKukanov, DarkFirstContKukanov
from riskroute.routers.literature.dark_allocation import KaplanMeier, ParMl, RaUcb
from riskroute.routers.literature.exponential_weights import Exp3, ExpGrad
from riskroute.routers.literature.lagrangian import Lagrangian, Reinforcement
from riskroute.routers.policy_router import PolicyRouter
from riskroute.routers.router import FEEDBACK, Router

# All routers by name. A plus in a name joins the stages: "dark-first+sweep" pings dark pools, then sweeps.
ROUTERS: dict[str, type[Router]] = {
    kind.name: kind
    for kind in (
        *(rules.SweepRule, rules.RawSweepRule, rules.PrimaryRule, rules.SprayRule, rules.NbboRule),
        *(rules.DarkFirstRule, rules.DarkFirstPostRule, rules.RestEvenRule),
        *(rules.HiddenRule, rules.DelayRule, ContKukanov, DarkFirstContKukanov, BayesFill),
        *(KaplanMeier, ParMl, ExpGrad, Exp3, Lagrangian, Reinforcement, Cmab, RaUcb),
        *(Contextual, ContextualGreedy, ContextualIds),
        *(rules.StaticSplitRule, rules.StaticSweepRule, PolicyRouter),
    )
}

# names for users: without the oracle, which needs the best split, and PolicyRouter, which policy names select
NAMES = (
    *(name for name in ROUTERS if name != PolicyRouter.name),
    *(name for name in POLICIES if name != Oracle.name),
)


def router_name(name: Any, names: Sequence[str] = (*ROUTERS, *POLICIES)) -> str:
    """Return the registered spelling of a router's name, ignoring case; an error suggests the nearest name.

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
    """Make a router by name; a policy's name makes a `PolicyRouter`.

    ``FILE.py:CLASS`` makes a user-defined router; see `file_router`.

    Examples
    --------
    >>> make_router("dark-first+sweep", mode="parallel")
    DarkFirstRule(mode='parallel', memory_weight=0.95, cap=None, min_saving=0.0)
    """
    if is_file_router(name):
        return make_file_router(name, parameters)
    known = router_name(name)
    if known in POLICIES:
        return _made(known, PolicyRouter, {"policy": known, **parameters})
    return _made(known, ROUTERS[known], parameters)


def _made(name: str, kind: type[Router], parameters: Mapping[str, Any]) -> Router:
    known = kind.parameter_names()
    if unknown := [one for one in parameters if one not in known]:
        raise InputError(f"{name} has no parameter {unknown[0]!r}; its parameters are {', '.join(known) or 'none'}")
    return kind(**parameters)


def router_parameters(text: str) -> tuple[str, dict[str, Any]]:
    """Parse ``NAME`` or ``NAME:KEY=VALUE,...`` into the name and parameters of a router.

    The name may be ``FILE.py:CLASS``.

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
            raise InputError(f"router parameters must be NAME=VALUE, separated by commas, was {part!r}")
        try:
            parameters[key.strip()] = json.loads(value)
        except ValueError:
            parameters[key.strip()] = value.strip()
    return name, parameters


def is_file_router(name: Any) -> bool:
    """Return whether a name refers to a user-defined router, ``FILE.py:CLASS``."""
    return isinstance(name, str) and (".py:" in name or name.endswith(".py"))


def router_source(name: str) -> str:
    """Return the source text of a user-defined router, ``FILE.py:CLASS``."""
    path = name.rpartition(".py")[0] + ".py"
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise InputError(f"cannot read {path!r} of router {name}: {reason}") from None


def file_router(name: str, source: str | None = None) -> type[Router]:
    """Return the class of a user-defined router, ``FILE.py:CLASS``.

    ``source`` is the file's text, for a process on another machine; default: read the file. The file may import
    installed packages, but not files beside it.
    """
    return _file_router(name, router_source(name) if source is None else source)


def make_file_router(name: str, parameters: Mapping[str, Any], source: str | None = None) -> Router:
    """Make a user-defined router; any exception but a `RiskrouteError` becomes an `InputError` with file and class."""
    try:
        return _made(name, file_router(name, source), parameters)
    except RiskrouteError:
        raise
    except Exception as error:
        raise InputError(f"{name} cannot be made: {type(error).__name__}: {one_line_text(error)}") from error


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
        raise InputError(f"{path} has no class {wanted}; {there}")
    if not (isinstance(kind, type) and issubclass(kind, Router)):
        raise InputError(f"{wanted} in {path} is not a subclass of riskroute.routers.Router; {there}")
    if inspect.isabstract(kind):
        missing = ", ".join(sorted(kind.__abstractmethods__))
        raise InputError(f"{wanted} in {path} does not implement {missing}")
    if not isinstance(getattr(kind, "name", None), str):
        raise InputError(f"{wanted} in {path} must have a name, such as name = {wanted.lower()!r}")
    if kind.name in (*ROUTERS, *POLICIES):  # a saved state refers to its router by name
        raise InputError(f"name of {wanted} in {path} must differ from all built-in names, was {kind.name!r}")
    if kind.feedback not in FEEDBACK:
        raise InputError(f"feedback of {wanted} in {path} must be one of {', '.join(FEEDBACK)}, was {kind.feedback!r}")
    return kind


@cache
def _module(path: str, source: str) -> ModuleType:
    """Execute a source text as a module; cached per process."""
    module = ModuleType(f"riskroute_own_{hashlib.sha256(f'{path}:{source}'.encode()).hexdigest()[:16]}")
    module.__file__ = path
    sys.modules[module.__name__] = module  # dataclasses look up their module
    try:
        exec(compile(source, path, "exec"), vars(module))
    except Exception as error:
        del sys.modules[module.__name__]
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
        where = f" in line {line}" if line else ""
        raise InputError(f"{path} failed{where}: {type(error).__name__}: {one_line_text(error)}") from error
    cloudpickle.register_pickle_by_value(module)  # other processes cannot import it
    return module


def restore_router(state: Any) -> Router:
    """Rebuild a router of any registered class from a saved state.

    Examples
    --------
    >>> restore_router(make_router("sweep", discretion=1).state())
    SweepRule(discretion=1, minimums={})
    """
    if not isinstance(state, dict) or not isinstance(state.get("router"), str):
        raise StateError(f"state must be one that a router's state() returned, was {described(state)}")
    if state["router"] not in ROUTERS:
        raise StateError(
            f"state of unknown router {shown(state['router'])}; "
            "for a user-defined router, give its class as FILE.py:CLASS"
        )
    return ROUTERS[state["router"]].restore(state)


def router_bytes(router: Router) -> bytes:
    """Encode the state of a router."""
    # Not msgspec, which would write NaN and infinity as null.
    return json.dumps(router.state(), separators=(",", ":")).encode()


def router_from(kind: type[Router], body: bytes) -> Router:
    """Restore a router from `router_bytes`."""
    return kind.restore(json.loads(body))
