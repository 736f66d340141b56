"""The package as a whole: light to import, every public name there and documented."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import riskroute
from checkout import MODULES, PUBLIC, ROOT


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("riskroute", "numpy numba scipy polars matplotlib typer rich"),
        ("riskroute.simulation.backends", "scipy.optimize scipy.signal scipy.stats polars pydantic rich dask ray"),
    ],
)
def test_importing_loads_what_is_used_at_once_and_no_more(module: str, heavy: str) -> None:
    """The backends are what a worker imports before it does anything."""
    code = f"import sys, {module}; heavy = set({heavy!r}.split()) & set(sys.modules); assert not heavy, heavy"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_public_name_loads_and_is_documented() -> None:
    for name, value in PUBLIC.items():
        if callable(value) and hasattr(value, "__module__") and value.__module__.startswith("riskroute"):
            assert value.__doc__, name
    plain = [name.rpartition(".")[2] for name in PUBLIC if name != "routers.Plan"]  # beside the plan of a policy
    assert len(plain) == len(set(plain)), "a name has one home"
    for module in MODULES:
        assert dir(module) == module.__all__ == sorted(module.__all__)


def test_unknown_names_are_attribute_errors() -> None:
    for module in MODULES:
        with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'nonesuch'"):
            module.nonesuch  # noqa: B018 - the access is what is tested


def test_learning_does_not_know_what_is_traded() -> None:
    """The learning room is pure mathematics: these words belong to the rooms above it."""
    for path in (Path(riskroute.__file__).parent / "learning").rglob("*.py"):
        found = re.findall(
            r"\b(?:shares?|venues?|prices?|trad(?:er|ing)s?|allocations?)\b", path.read_text(), re.IGNORECASE
        )
        assert not found, (path.name, found)


def test_the_table_of_rooms_has_every_room() -> None:
    rooms = {path.parent.name for path in Path(riskroute.__file__).parent.glob("*/__init__.py")}
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert set(re.findall(r"^\| `(\w+)/` \|", page, flags=re.MULTILINE)) == rooms


def test_the_architecture_page_names_files_that_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`(\w+/[\w/]+\.py)`", page))
    assert len(named) > 50
    assert not [
        name for name in named if not (ROOT / "src" / "riskroute" / name).is_file() and not (ROOT / name).is_file()
    ]


def test_the_citation_names_this_version_and_the_paper() -> None:
    yaml = pytest.importorskip("yaml", reason="the file is YAML")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == riskroute.__version__
    (paper,) = citation["references"]
    assert {"type", "title", "authors"} <= set(paper)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["urls"]["Paper"] == paper["url"]
    assert citation["license"] == project["license"]


def test_the_changelog_says_what_is_new_by_kind() -> None:
    unreleased = (ROOT / "CHANGELOG.md").read_text().partition("## Unreleased\n")[2].partition("\n## ")[0]
    kinds = re.findall(r"^### (.+)$", unreleased, flags=re.MULTILINE)
    assert kinds == [kind for kind in ("Added", "Changed", "Fixed", "Removed") if kind in kinds] != []


POLICY_FILES = sorted((Path(riskroute.__file__).parent / "learning" / "policies").glob("*.py"))


@pytest.mark.parametrize("path", POLICY_FILES, ids=lambda path: path.stem)
def test_every_policy_has_an_example_and_a_reference_with_a_link(path: Path) -> None:
    text = path.read_text()
    if re.search(r"^    name: ClassVar\[str\] = ", text, flags=re.MULTILINE):
        assert ">>> " in text
        assert re.search(r"    References\n    -{10}\n(?:.*\n)*?.*<https://", text)
