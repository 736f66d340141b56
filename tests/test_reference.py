"""The pages of commands and configuration files are what the code generates, on any terminal."""

from __future__ import annotations

import importlib
import re
import tomllib
from types import ModuleType

import pytest

from checkout import ROOT
from riskroute.cli.app import app
from riskroute.study.config import study_config_template

DOCS = ROOT / "docs"


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(DOCS)
    return importlib.import_module("reference")


@pytest.mark.parametrize("columns", ["20", "200"])
def test_the_pages_are_what_the_code_generates(
    reference: ModuleType, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, `make reference` writes them again."""
    monkeypatch.setenv("COLUMNS", columns)
    assert (DOCS / "cli.md").read_text() == reference.cli_page()
    assert (DOCS / "configuration.md").read_text() == reference.configuration_page()


def test_every_command_has_a_section(reference: ModuleType) -> None:
    groups = [group.typer_instance for group in app.registered_groups]
    count = len(app.registered_commands) + sum(len(one.registered_commands) for one in groups if one is not None)
    found = re.findall(r"^## `(riskroute .+)`$", reference.cli_page(), flags=re.MULTILINE)
    assert len(set(found)) == count
    assert {"riskroute demo", "riskroute study", "riskroute split-study"} <= set(found)
    assert {"riskroute market import", "riskroute live serve"} <= set(found)


def test_a_row_has_name_type_default_and_meaning(reference: ModuleType) -> None:
    assert "| `--shares` | integer | required | Order size in shares. |" in reference.cli_page()
    assert "| `--out` | path | `out/split-study` | Folder for" in reference.cli_page()
    page = reference.configuration_page()
    assert (
        "| `quantities` | list of integer or numbers | `[1000]` | quantity | Order sizes, such as 1000 (shares)" in page
    )
    assert '| `side` | `"sell"` or `"buy"` | `"sell"` |  | Whether the orders sell or buy. |' in page
    assert '| `train` | two times, `HH:MM-HH:MM` | `"10:40-12:00"` | time of the recordings\' zone |' in page
    assert "| `bucket_minutes` | number above 0, at most 600 | `2.0` | minutes |" in page
    assert '| `rise` | `mode = "practical"`, ' in page


@pytest.mark.parametrize(
    ("template", "page"),
    [
        (study_config_template("study"), "STUDY"),
        (study_config_template("split-study"), "SPLIT_STUDY"),
    ],
)
def test_the_commented_configuration_has_the_keys_of_the_page(reference: ModuleType, template: str, page: str) -> None:
    written = re.sub(r"^# (\[*\w+\]*(?: = .*)?(?: +#.*)?)$", r"\1", template, flags=re.MULTILINE)
    keys = set(tomllib.loads(template)) | set(re.findall(r"^\[*(\w+)(?:\]| = )", written, flags=re.MULTILINE))
    assert set(getattr(reference, page)) <= keys


def test_a_key_without_a_meaning_is_an_error(reference: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"must explain the keys of x\.toml and no others: other, shares"):
        reference._keys("x.toml", {"shares": ("integer", "")}, {"other": ("", "")})
