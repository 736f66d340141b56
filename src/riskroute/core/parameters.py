"""Parameters of policies and routers: what a value must be is declared once, where the parameter is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any


def parameter(default: Any, check: Callable[..., Any], **limits: Any) -> Any:
    """Declare a field of a dataclass with the check that its values must pass.

    The check is a function of `riskroute.core.validation`, called with the name, the value and the ``limits``. Where
    the default is None, None is valid too. A subclass that only changes the default keeps the check.

    Examples
    --------
    >>> from riskroute.core.validation import real_number
    >>> @dataclasses.dataclass
    ... class Coin:
    ...     chance: float = parameter(0.5, real_number, minimum=0, maximum=1)
    >>> checked_parameters(Coin())
    {'chance': 0.5}
    >>> checked_parameters(Coin(chance=2))
    Traceback (most recent call last):
    ...
    riskroute.core.errors.InputError: chance must be a number of at least 0 and of at most 1, was 2
    """
    return dataclasses.field(default=default, metadata={"parameter": partial(check, **limits)})


def checked_parameters(owner: Any) -> dict[str, Any]:
    """Return the values of declared parameters as their checks return them, or raise `InputError`."""
    checked = {}
    for name, (check, optional) in _declared(type(owner)).items():
        value = getattr(owner, name)
        checked[name] = None if optional and value is None else check(name, value)
    return checked


def _declared(kind: type[Any]) -> dict[str, tuple[Callable[[str, Any], Any], bool]]:
    """Check of every declared parameter, and whether the parameter may be None; the nearest declaration counts."""
    checks = {
        item.name: item.metadata["parameter"]
        for base in reversed(kind.__mro__)
        if dataclasses.is_dataclass(base)
        for item in dataclasses.fields(base)
        if "parameter" in item.metadata
    }
    defaults = {item.name: item.default for item in dataclasses.fields(kind)}
    return {name: (check, defaults[name] is None) for name, check in checks.items()}
