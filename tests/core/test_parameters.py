"""Parameters of policies and routers: what each must be is declared beside it, and holds in subclasses too."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from riskroute.core.errors import InputError
from riskroute.core.validation import parameter, real_number, validated_parameters, whole_number
from riskroute.learning.policies.adaptive import Adaptive
from riskroute.learning.registry import POLICIES
from riskroute.routers.registry import ROUTERS
from riskroute.routers.rules import SweepRule


@dataclass
class Coin:
    chance: float = parameter(0.5, real_number, minimum=0, maximum=1)
    throws: int | None = parameter(None, whole_number)
    label: Any = None


@dataclass
class Bent(Coin):
    chance: float = 0.7


@dataclass
class Fixed(Coin):
    throws: int | None = parameter(3, whole_number, maximum=5)


def test_values_come_back_as_their_checks_return_them() -> None:
    given: dict[str, Any] = {"chance": np.float32(0.25), "throws": np.int64(2), "label": object()}
    checked = validated_parameters(Coin(**given))
    assert checked == {"chance": 0.25, "throws": 2}
    assert [type(value) for value in checked.values()] == [float, int]


def test_only_what_is_none_by_default_may_be_none() -> None:
    assert validated_parameters(Coin())["throws"] is None
    with pytest.raises(InputError, match="throws must be a positive integer, was None"):
        validated_parameters(Fixed(throws=None))
    with pytest.raises(InputError, match="chance must be a number of at least 0 and of at most 1, was None"):
        validated_parameters(Coin(chance=None))  # type: ignore[arg-type]


def test_a_new_default_keeps_the_check_and_a_new_check_replaces_it() -> None:
    assert validated_parameters(Bent())["chance"] == 0.7
    with pytest.raises(InputError, match="chance must be a number of at least 0 and of at most 1, was 2"):
        validated_parameters(Bent(chance=2))
    with pytest.raises(InputError, match="throws must be at most 5, was 6"):
        validated_parameters(Fixed(throws=6))
    with pytest.raises(InputError, match="growth must be a number of at most 1 and above 0, was 2"):
        validated_parameters(Adaptive(growth=2))


def test_routers_hold_plain_values() -> None:
    given: Any = np.int64(3)
    assert type(SweepRule(discretion=given).discretion) is int


IN_CODE = {"prior", "schedule", "take", "dark", "pools", "minimums", "parameters_of_policy", "least"}
"""What is checked against other parameters or the setting, or holds several values."""


@pytest.mark.parametrize("kind", [*POLICIES.values(), *ROUTERS.values()], ids=lambda kind: kind.name)
def test_every_parameter_is_declared_with_its_check(kind: Any) -> None:
    made = kind()
    inside = validated_parameters(made.lit) if hasattr(made, "lit") else {}  # a router that hands on its parameters
    given = {item.name for item in dataclasses.fields(kind) if item.init}
    assert given - IN_CODE <= {*validated_parameters(made), *inside}
