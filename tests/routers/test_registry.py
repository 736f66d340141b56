"""Routers by name in any case, and user-defined routers from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from riskroute.core.errors import InputError, StateError
from riskroute.routers.registry import file_router, make_router, restore_router, router_name, router_parameters
from riskroute.simulation.checks import check_router
from router_cases import sale

HALVES = '''"""A router of a user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from riskroute.core.validation import parameter
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.router import Router
from riskroute.core.validation import whole_number


@dataclass
class Halves(Router):
    """Half of an order at each of two venues."""

    name: ClassVar[str] = "halves"
    parts: int = parameter(2, whole_number)

    def decide(self, context: Context) -> Plan:
        first, second = context.books.venues[:2]
        part = context.shares // self.parts
        return Plan(context.order, take={first: part, second: context.shares - part})


class Idle(Router):
    name = "idle"


class Nameless(Halves):
    name = None


class Impostor(Halves):
    name = "sweep"


class Deaf(Halves):
    name = "deaf"
    feedback = "F9"


class Broken(Halves):
    name = "broken"

    def begin(self) -> None:
        raise ZeroDivisionError("no parts")


NUMBER = 3
'''


@pytest.fixture
def halves(tmp_path: Path) -> Path:
    path = tmp_path / "halves.py"
    path.write_text(HALVES)
    return path


@pytest.mark.parametrize("name", ["contextual", "Contextual", "CONTEXTUAL"])
def test_names_are_found_whatever_their_case(name: str) -> None:
    assert router_name(name) == make_router(name).name == "contextual"


def test_a_policy_is_found_whatever_its_case() -> None:
    assert make_router("RISE").parameters["policy"] == "rise"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("contextul", "unknown router 'contextul'; did you mean 'contextual'?"),
        ("Dark-Frist", "unknown router 'Dark-Frist'; did you mean 'dark-first+sweep'?"),
        ("xyz", "unknown router 'xyz'"),
        (3, "unknown router 3"),
    ],
)
def test_an_unknown_name_names_the_nearest(name: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        make_router(name)
    assert str(caught.value) == message


def test_a_router_from_a_file_passes_the_checks(halves: Path) -> None:
    router = make_router(f"{halves}:Halves", parts=3)
    assert router.route(sale(300)).take == {"A": 100, "B": 200}
    check_router(router)
    kind = file_router(f"{halves}:Halves")
    assert kind is type(router)
    assert kind.restore(router.state()).state() == router.state()


def test_an_edited_file_is_another_router(halves: Path) -> None:
    before = make_router(f"{halves}:Halves")
    halves.write_text(HALVES.replace("parameter(2,", "parameter(3,"))
    after = make_router(f"{halves}:Halves")
    assert (before.parameters, after.parameters) == ({"parts": 2}, {"parts": 3})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("own/halves.py:Halves", ("own/halves.py:Halves", {})),
        ("own/halves.py:Halves:parts=3", ("own/halves.py:Halves", {"parts": 3})),
        (r"C:\own\halves.py:Halves:parts=3,x=a.py:b", (r"C:\own\halves.py:Halves", {"parts": 3, "x": "a.py:b"})),
    ],
)
def test_parameters_follow_the_class(text: str, expected: tuple[str, dict[str, object]]) -> None:
    assert router_parameters(text) == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("halves.py", "router in a file must be FILE.py:CLASS, was 'halves.py'; halves.py defines Halves, Idle"),
        ("halves.py:Thirds", "halves.py has no class Thirds; halves.py defines Halves, Idle"),
        ("halves.py:NUMBER", "NUMBER in halves.py is not a subclass of riskroute.routers.Router"),
        ("halves.py:Idle", "Idle in halves.py does not implement decide"),
        ("halves.py:Nameless", "Nameless in halves.py must have a name, such as name = 'nameless'"),
        ("halves.py:Impostor", "name of Impostor in halves.py must differ from all built-in names, was 'sweep'"),
        ("halves.py:Deaf", "feedback of Deaf in halves.py must be one of F0, F1, F2, F3, F4, was 'F9'"),
        ("halves.py:Broken", "halves.py:Broken cannot be made: ZeroDivisionError: no parts"),
        ("thirds.py:Thirds", "cannot read 'thirds.py' of router thirds.py:Thirds: No such file"),
        ("typo.py:Own", "typo.py failed in line 2: SyntaxError"),
        ("raises.py:Own", "raises.py failed in line 3: ModuleNotFoundError: No module named 'no_such'"),
        ("plain.py:Own", "plain.py has no class Own; plain.py defines no router"),
        ("bytes.py:Own", "cannot read 'bytes.py' of router bytes.py:Own: not UTF-8 text"),
    ],
)
def test_errors_in_a_router_file_are_named(
    name: str, message: str, halves: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(halves.parent)
    Path("typo.py").write_text("x = 1\nclass Own(:\n")
    Path("raises.py").write_text("x = 1\n\nimport no_such\n")
    Path("plain.py").write_text("x = 1\n")
    Path("bytes.py").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError) as caught:
        make_router(name)
    assert str(caught.value).startswith(message)


def test_invalid_parameters_of_a_user_defined_router_are_refused(halves: Path) -> None:
    with pytest.raises(InputError, match=r"halves.py:Halves has no parameter 'pace'; its parameters are parts"):
        make_router(f"{halves}:Halves", pace=1)
    with pytest.raises(InputError, match="parts must be a positive integer, was 0"):
        make_router(f"{halves}:Halves", parts=0)


def test_restoring_an_unknown_router_names_the_remedy(halves: Path) -> None:
    state = make_router(f"{halves}:Halves").state()
    with pytest.raises(StateError, match=r"unknown router 'halves'; for a user-defined router, give its class"):
        restore_router(state)
