"""The reference pages, from the code: commands and their options, configuration files and their keys.

``python docs/refresh.py reference`` writes them. Types, defaults and help texts are the code's; what a key of a file
means, and in which unit it is, stands here. A key without a meaning is an error, and so is a meaning without a key.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import inspect
import json
import textwrap
import types
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel

from meanings import (
    DARK,
    FEES,
    LIVE,
    LIVE_INSTRUMENT,
    LIVE_LIMITS,
    LIVE_LOG,
    LIVE_POOL,
    LIVE_ROUTER,
    LIVE_TOKEN,
    LIVE_VENUE,
    POOLS,
    SPLIT_STUDY,
    STUDY,
    SWEEP,
    VENUES,
    Meanings,
)
from riskroute.cli.app import app
from riskroute.learning.registry import POLICIES
from riskroute.live.config import (
    InstrumentConfig,
    LimitsConfig,
    LiveConfig,
    LogConfig,
    PlaceConfig,
    PoolConfig,
    RouterConfig,
    TokenConfig,
)
from riskroute.routing.fees import Fee
from riskroute.routing.venues import KINDS, VenueModel
from riskroute.simulation.dark_market import PoolModel
from riskroute.simulation.sweep import SweepConfig
from riskroute.study.config import SplitPool, SplitStudyConfig, StudyConfig

WIDTH = 120
NOT_IN_FILES = {"prior"}
"""Parameters of policies that are objects, which no configuration file can hold."""

BEYOND = 10**15
"""A largest value that nobody would reach is not worth a word."""

_WORDS = {int: "integer", float: "number", str: "text", Path: "path", bool: "flag", dt.date: "date"}

CLI_HEAD = """\
# Commands

Every command, its arguments and its options: what `riskroute COMMAND --help` prints. `riskroute --version` prints the
version. A mistake ends in one line on standard error and exit code 2; Ctrl-C ends with exit code 130. The
[glossary](glossary.md) explains the words.
"""

CONFIGURATION_HEAD = """\
# Configuration files

Six kinds of TOML file, with every key. A key that is not listed here is refused. Where a list of texts or numbers is
expected, one value stands for a list of one. The [glossary](glossary.md) explains the words.
"""

STUDY_HEAD = """\
## `study.toml`

What [`riskroute study`](cli.md#riskroute-study) reads. Every key is optional, and options of the command say otherwise;
`riskroute study study.toml --init` writes a file with all of them. [The study](study.md) explains what happens with
them.
"""

POOLS_HEAD = """\
### Dark pools: `[[pools]]`

One section per pool; those of the market if there is none. Nobody publishes the data of dark pools, so these are
assumptions.
"""

SPLIT_STUDY_HEAD = """\
## `split-study.toml`

What [`riskroute split-study`](cli.md#riskroute-split-study) reads. Every key is optional;
`riskroute split-study --init split-study.toml` writes a file with all of them. [The split study](split-study.md)
explains what happens with them.
"""

DARK_HEAD = """\
### Dark pools: `[[dark]]`

One section per pool. Nobody publishes the data of dark pools, so these are assumptions: at least `n` shares are hidden
with probability `presence * (smallest / n) ** tail`.
"""

SWEEP_HEAD = """\
## `sweep.toml`

What [`riskroute sweep`](cli.md#riskroute-sweep) reads. It plays every combination of `slots`, `shares`,
`risk_tolerances`, `horizons` and `instances` with every policy.
"""

PARAMETERS_HEAD = """\
### Parameters of policies: `[parameters.NAME]`

What may be set, and what it is if left out; where nothing is shown, the policy works it out. [API](api.md) has the
meaning of each under the class of the policy. Quote names that are not plain words: `[parameters."rise++"]`.
"""

LIVE_HEAD = """\
## `live.toml`

What [`riskroute live serve`](cli.md#riskroute-live-serve) reads; `riskroute live init` writes one that runs.
[The live router](live.md) explains what happens with it. Needed are a log, a venue, an instrument and a token.
"""

LIVE_PARTS = (
    ("The log: `[log]`", LogConfig, LIVE_LOG),
    ("The router: `[router]`", RouterConfig, LIVE_ROUTER),
    ("Venues: `[venues.NAME]`", PlaceConfig, LIVE_VENUE),
    ("Dark pools: `[pools.NAME]`, with the keys of venues and these", PoolConfig, LIVE_POOL),
    ("Symbols: `[instruments.NAME]`", InstrumentConfig, LIVE_INSTRUMENT),
    ("Limits: `[limits]`", LimitsConfig, LIVE_LIMITS),
    ("Tokens: `[tokens.NAME]`", TokenConfig, LIVE_TOKEN),
)
"""Sections of `live.toml`: heading, configuration, and meanings."""

VENUES_HEAD = """\
## `venues.toml`

Venue models, one `[[venues]]` section per slot. [`riskroute market calibrate`](cli.md#riskroute-market-calibrate)
writes the file with `--out`, `load_models` reads it, and it may be edited or written by hand.
"""

FEES_HEAD = """\
## `fees.toml`

A fee schedule, one `[[fees]]` section per venue and first day; [fees.toml](fees.toml) is an example. `--fees` of
`riskroute market calibrate`, `riskroute backtest` and `riskroute study`, and `fees` of both studies name the file;
`riskroute live export` writes one. All four keys must be given.
"""


def cli_page() -> str:
    """The page of commands: what ``--help`` says, whatever the terminal."""
    return CLI_HEAD + "".join(_command(*one) for one in _commands(app, "riskroute"))


def _commands(group: typer.Typer, path: str) -> Iterator[tuple[str, Any]]:
    """Path and function of every command, in the order of ``--help``."""
    for command in group.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__.replace("_", "-")
        yield f"{path} {name}", command.callback
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        inside = f"{path} {inner.name}" if isinstance(inner.name, str) else path  # nameless groups are flat
        yield from _commands(inner.typer_instance, inside)


def _command(path: str, function: Any) -> str:
    hints = typing.get_type_hints(function, include_extras=True)
    arguments, options = [], []
    for name, parameter in inspect.signature(function).parameters.items():
        if hints[name] is typer.Context:  # nothing that a user gives
            continue
        kind, about = typing.get_args(hints[name])
        required = parameter.default is parameter.empty
        row = [_type_words(kind), "required" if required else _typed(parameter.default), about.help]
        if isinstance(about, typer.models.ArgumentInfo):
            arguments.append((name.upper(), required, [f"`{name.upper()}`", *row]))
        else:
            flags = about.param_decls or [f"--{name.replace('_', '-')}"]
            options.append([f"`{', '.join(flags)}`", *row])
    usage = " ".join([path, "[OPTIONS]", *(name if required else f"[{name}]" for name, required, _ in arguments)])
    rows = [row for _, _, row in arguments] + options
    table = _table(["option", "type", "default", "meaning"], rows)
    return f"\n## `{path}`\n\n```text\n{usage}\n```\n\n{_paragraphs(function.__doc__)}\n\n{table}"


def _paragraphs(docstring: str) -> str:
    """A help text: sentences become paragraphs, and lines that are commands become code."""
    blocks = []
    for text in inspect.cleandoc(docstring).split("\n\n"):
        if text.startswith("riskroute "):
            blocks.append(f"```text\n{text}\n```")
        else:
            blocks.append("\n".join(textwrap.wrap(" ".join(text.split()), WIDTH, break_on_hyphens=False)))
    return "\n\n".join(blocks)


def configuration_page() -> str:
    """The page of configuration files: every key with type, default, unit and meaning."""
    fees = {("from" if field.name == "since" else field.name): field for field in dataclasses.fields(Fee)}
    venues = {field.name: field for field in dataclasses.fields(VenueModel)}
    return "\n".join(
        [
            CONFIGURATION_HEAD,
            STUDY_HEAD,
            _keys("study.toml", _of_study(), STUDY),
            POOLS_HEAD,
            _keys("[[pools]]", _of_dataclass(PoolModel), POOLS),
            SPLIT_STUDY_HEAD,
            _keys(
                "split-study.toml",
                _of_dataclass(SplitStudyConfig),
                SPLIT_STUDY,
            ),
            DARK_HEAD,
            _keys("[[dark]]", _of_dataclass(SplitPool), DARK),
            SWEEP_HEAD,
            _keys("sweep.toml", _of_model(SweepConfig), SWEEP),
            PARAMETERS_HEAD,
            _table(["policy", "parameters"], [[f"`{name}`", _parameters(name)] for name in POLICIES]),
            LIVE_HEAD,
            _keys("live.toml", _of_sections(LiveConfig), LIVE),
            *_live_parts(),
            VENUES_HEAD,
            _keys("venues.toml", _of_fields(VenueModel, venues), VENUES),
            FEES_HEAD,
            _keys("fees.toml", _of_fields(Fee, fees), FEES),
        ]
    )


def _live_parts() -> Iterator[str]:
    """The sections of `live.toml`; a pool's without what it shares with venues."""
    for heading, model, meanings in LIVE_PARTS:
        shared = set(PlaceConfig.model_fields) if model is PoolConfig else set()
        keys = {key: words for key, words in _of_model(model).items() if key not in shared}
        yield f"### {heading}\n"
        yield _keys(heading, keys, meanings)


def _of_sections(model: type[BaseModel]) -> dict[str, tuple[str, str]]:
    """As `_of_model`, of a configuration with sections of its own, whose defaults stand in their tables."""
    found = {}
    for key, (words, default) in _of_model(model).items():
        section = "$ref" in str(model.model_json_schema()["properties"][key])
        found[key] = ("section", "required" if default == "required" else "") if section else (words, default)
    return found


def _keys(file: str, found: dict[str, tuple[str, str]], meanings: Meanings) -> str:
    if set(found) != set(meanings):
        odd = ", ".join(sorted(set(found) ^ set(meanings)))
        raise ValueError(f"docs/meanings.py must explain the keys of {file} and no others: {odd}")
    rows = [[f"`{key}`", *words, *meanings[key]] for key, words in found.items()]
    return _table(["key", "type", "default", "unit", "meaning"], rows)


def _of_model(model: type[BaseModel]) -> dict[str, tuple[str, str]]:
    """Type and default of every field of a configuration, from its schema."""
    schema = model.model_json_schema()
    needed = schema.get("required", [])
    return {
        key: (_schema_words(field), "required" if key in needed else _code(field.get("default")))
        for key, field in schema["properties"].items()
    }


def _schema_words(field: dict[str, Any]) -> str:
    """A JSON schema in words."""
    if "anyOf" in field:
        return "; or ".join(_schema_words(one) for one in field["anyOf"] if one.get("type") != "null")
    if "enum" in field:
        return " or ".join(_code(value) for value in field["enum"])
    match field.get("type"):
        case "array" if "prefixItems" in field:
            return "two times, `HH:MM-HH:MM`"
        case "array" if "enum" in field["items"]:
            return f"list of {_schema_words(field['items'])}"
        case "array":
            return "sections" if "$ref" in field["items"] else f"list of {_plural(_schema_words(field['items']))}"
        case "object":
            inner = field["additionalProperties"]
            return "sections" if inner.get("type") == "object" else f"{_plural(_schema_words(inner))}, by name"
        case "string":
            return {"date": "date", "path": "path"}.get(field.get("format", ""), "text")
        case kind:
            return str(kind) + _limits(field)


def _plural(words: str) -> str:
    """Several of a kind: the first word is the noun."""
    noun, comma, rest = words.partition(",")
    return f"{noun}s{comma}{rest}"


def _limits(field: dict[str, Any]) -> str:
    lowest, above, highest = (field.get(name) for name in ("minimum", "exclusiveMinimum", "maximum"))
    highest = None if highest is not None and highest >= BEYOND else highest
    if above is not None:
        return f" above {above:,}" + (f", at most {highest:,}" if highest is not None else "")
    if highest is None:
        return f", at least {lowest:,}" if lowest is not None else ""
    return f", {lowest:,} to {highest:,}"


def _of_fields(cls: Any, fields: dict[str, dataclasses.Field[Any]]) -> dict[str, tuple[str, str]]:
    """Type and default of fields of a dataclass, by key in a file."""
    hints = typing.get_type_hints(cls)
    return {
        key: (
            " or ".join(map(_code, KINDS)) if field.name == "kind" else _type_words(hints[field.name]),
            "required" if field.default is field.default_factory else _code(_default(field)),
        )
        for key, field in fields.items()
    }


def _default(field: dataclasses.Field[Any]) -> Any:
    made = field.default_factory
    return field.default if made is dataclasses.MISSING else made()


def _of_dataclass(cls: Any) -> dict[str, tuple[str, str]]:
    """Type and default of every field of a dataclass."""
    return _of_fields(cls, {one.name: one for one in dataclasses.fields(cls)})


def _of_study() -> dict[str, tuple[str, str]]:
    """Type and default of the keys of a study: the fields of its configuration, and two that are files or sections."""
    fields = _of_dataclass(StudyConfig)
    return fields | {"fees": ("path", ""), "pools": ("sections", "")}


def _parameters(name: str) -> str:
    fields = [field for field in dataclasses.fields(POLICIES[name]) if field.init and field.name not in NOT_IN_FILES]
    if name == "oracle":  # knows the coefficients, and has nothing to set
        return "none"
    return ", ".join(
        f"`{field.name}`" if field.default is None else f"`{field.name} = {_toml(field.default)}`" for field in fields
    )


def _type_words(kind: Any) -> str:
    """A type annotation in words."""
    inner = [one for one in typing.get_args(kind) if one is not types.NoneType]
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(map(_type_words, inner))
    if origin is list:
        return f"{_type_words(inner[0])}, repeatable"
    if dict in (kind, origin):
        return f"{_plural(_type_words(inner[1]))}, by name"
    if inner == [dt.time, dt.time]:
        return "two times, `HH:MM-HH:MM`"
    if origin is tuple and dataclasses.is_dataclass(inner[0]):
        return "sections"
    if origin is tuple and Ellipsis in inner:
        return f"list of {_plural(_type_words(inner[0]))}"
    if origin is tuple:
        return f"{len(inner)} {_type_words(inner[0])}s"
    return _WORDS.get(kind, getattr(kind, "__name__", str(kind)))


def _typed(value: Any) -> str:
    """A value as it is typed at a terminal; nothing for what may be left out."""
    plain = value.as_posix() if isinstance(value, Path) else value
    return "" if plain is None or plain is False else f"`{plain}`"


def _code(value: Any) -> str:
    """A value as it is written in a file; nothing for what may be left out."""
    return "" if value is None else f"`{_toml(value)}`"


def _toml(value: Any) -> str:
    if isinstance(value, tuple) and value and all(isinstance(one, dt.time) for one in value):
        return json.dumps("-".join(f"{one:%H:%M}" for one in value))
    if isinstance(value, list) and value and all(isinstance(one, str) and one.count(":") == 2 for one in value):
        return json.dumps("-".join(one.removesuffix(":00") for one in value))
    return json.dumps(value, ensure_ascii=False)


def _table(header: list[str], rows: Iterable[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
