"""Generate the reference pages of commands and configuration files.

``python docs/refresh.py reference`` writes them. Types, defaults and help texts come from the code, descriptions and
units of configuration keys from ``meanings.py``. A key without a description, or a description without a key, is an
error.
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
from decimal import Decimal
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
from riskroute.core.instrument import Instrument
from riskroute.core.text import plain_number
from riskroute.learning.registry import POLICIES
from riskroute.live.config import (
    LiveConfig,
    _LimitsConfig,
    _LogConfig,
    _PlaceConfig,
    _PoolConfig,
    _RouterConfig,
)
from riskroute.live.tokens import TokenConfig
from riskroute.routers.risk import RiskProfile
from riskroute.routing.fees import Fee
from riskroute.routing.venue_models import KINDS, VenueModel
from riskroute.simulation.dark_market import DarkMarketPool
from riskroute.simulation.sweep import SweepConfig
from riskroute.study.config import SplitPoolConfig, SplitStudyConfig, StudyConfig

WIDTH = 120
NOT_IN_FILES = {"prior"}  # parameters that are objects cannot be written in TOML
BEYOND = 10**15  # larger upper bounds are not printed

_WORDS = {int: "integer", float: "number", Decimal: "number", str: "text", Path: "path", bool: "flag", dt.date: "date"}
_WORDS[RiskProfile] = "name or number"

CLI_HEAD = """\
# Commands

Every command with its arguments and options, as printed by `riskroute COMMAND --help`. `riskroute --version` prints the
version. Invalid input prints one line to standard error and exits with code 2; Ctrl-C exits with code 130.
"""

CONFIGURATION_HEAD = """\
# Configuration files

Six kinds of TOML file, with every key. Unknown keys are refused. Where a list is expected, a single value stands for a
list of one.
"""

STUDY_HEAD = """\
## `study.toml`

Configuration of [`riskroute study`](cli.md#riskroute-study). Every key is optional; options of the command override the
file. `riskroute study study.toml --init` writes a file with all keys. See [The study](study.md).
"""

POOLS_HEAD = """\
### Dark pools: `[[pools]]`

One section per pool. Default: the pools of the market. Dark-pool data are not public, so these are assumptions.
"""

SPLIT_STUDY_HEAD = """\
## `split-study.toml`

Configuration of [`riskroute split-study`](cli.md#riskroute-split-study). Every key is optional.
`riskroute split-study --init split-study.toml` writes a file with all keys. See [The split study](split-study.md).
"""

DARK_HEAD = """\
### Dark pools: `[[dark]]`

One section per pool. Dark-pool data are not public, so these are assumptions: at least `n` shares are hidden with
probability `presence * (smallest / n) ** tail`.
"""

SWEEP_HEAD = """\
## `sweep.toml`

Configuration of [`riskroute sweep`](cli.md#riskroute-sweep), which simulates every policy on every combination of
`slots`, `shares`, `risk_tolerances`, `horizons` and `instances`.
"""

PARAMETERS_HEAD = """\
### Parameters of policies: `[parameters.NAME]`

Parameters and their defaults; without a default, the policy derives the value. [API](api.md) describes each under the
class of the policy. Quote names that are not bare TOML keys: `[parameters."rise++"]`.
"""

LIVE_HEAD = """\
## `live.toml`

Configuration of [`riskroute live serve`](cli.md#riskroute-live-serve). `riskroute live init` writes a working example.
A log, a venue, an instrument and a token are required. See [The live router](live.md).
"""

# Sections of `live.toml`: heading, configuration, descriptions.
LIVE_PARTS = (
    ("The log: `[log]`", _LogConfig, LIVE_LOG),
    ("The router: `[router]`", _RouterConfig, LIVE_ROUTER),
    ("Venues: `[venues.NAME]`", _PlaceConfig, LIVE_VENUE),
    ("Dark pools: `[pools.NAME]`, the keys of venues and these", _PoolConfig, LIVE_POOL),
    ("Symbols: `[instruments.NAME]`", Instrument, LIVE_INSTRUMENT),
    ("Limits: `[limits]`", _LimitsConfig, LIVE_LIMITS),
    ("Tokens: `[tokens.NAME]`", TokenConfig, LIVE_TOKEN),
)

VENUES_HEAD = """\
## `venues.toml`

Venue models, one `[[venues]]` section per slot. [`riskroute market calibrate`](cli.md#riskroute-market-calibrate)
writes the file with `--out`; `load_venue_models` reads it. It may be edited or written by hand.
"""

FEES_HEAD = """\
## `fees.toml`

A fee schedule, one `[[fees]]` section per venue, symbol and first day; [fees.toml](fees.toml) is an example. Pass the
file as `--fees` to `riskroute market calibrate`, `riskroute backtest` and `riskroute study`, or as `fees` in the
configuration of a study. `riskroute live export` writes such a file.
"""


def cli_page() -> str:
    """Return the page of commands; it does not depend on the width of the terminal."""
    return CLI_HEAD + "".join(_command(*one) for one in _commands(app, "riskroute"))


def _commands(group: typer.Typer, path: str) -> Iterator[tuple[str, Any]]:
    """Yield path and function of every command, in the order of ``--help``."""
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
        if hints[name] is typer.Context:  # injected by typer
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
    """Return a help text as Markdown: wrapped paragraphs, and commands as code blocks."""
    blocks = []
    for text in inspect.cleandoc(docstring).split("\n\n"):
        if text.startswith("riskroute "):
            blocks.append(f"```text\n{text}\n```")
        else:
            blocks.append("\n".join(textwrap.wrap(" ".join(text.split()), WIDTH, break_on_hyphens=False)))
    return "\n\n".join(blocks)


def configuration_page() -> str:
    """Return the page of configuration files: every key with type, default, unit and description."""
    fees = {("from" if field.name == "since" else field.name): field for field in dataclasses.fields(Fee)}
    venues = {field.name: field for field in dataclasses.fields(VenueModel)}
    return "\n".join(
        [
            CONFIGURATION_HEAD,
            STUDY_HEAD,
            _keys("study.toml", _of_study(), STUDY),
            POOLS_HEAD,
            _keys("[[pools]]", _of_dataclass(DarkMarketPool), POOLS),
            SPLIT_STUDY_HEAD,
            _keys(
                "split-study.toml",
                _of_dataclass(SplitStudyConfig),
                SPLIT_STUDY,
            ),
            DARK_HEAD,
            _keys("[[dark]]", _of_dataclass(SplitPoolConfig), DARK),
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
            _keys(
                "fees.toml",
                _of_fields(Fee, fees) | dict.fromkeys(("taker", "maker"), ("text or table", "required")),
                FEES,
            ),
        ]
    )


def _live_parts() -> Iterator[str]:
    """Yield the sections of `live.toml`; the section of a pool omits the keys it shares with venues."""
    for heading, model, meanings in LIVE_PARTS:
        shared = set(_PlaceConfig.model_fields) if model is _PoolConfig else set()
        found = _of_dataclass(Instrument) if model is Instrument else _of_model(model)
        keys = {key: words for key, words in found.items() if key not in {*shared, "symbol"}}
        yield f"### {heading}\n"
        yield _keys(heading, keys, meanings)


def _of_sections(model: type[BaseModel]) -> dict[str, tuple[str, str]]:
    """Return keys as `_of_model` does, without the defaults of nested sections, which have tables of their own."""
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
    """Return type and default of every field of a configuration, from its schema."""
    schema = model.model_json_schema()
    needed = schema.get("required", [])
    return {
        key: (_schema_words(field), "required" if key in needed else _code(field.get("default")))
        for key, field in schema["properties"].items()
    }


def _schema_words(field: dict[str, Any]) -> str:
    """Return the type of a JSON schema in words."""
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
    """Return a type in the plural; the words before the first comma end in its noun."""
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
    """Return type and default of fields of a dataclass, by key in a file."""
    hints = typing.get_type_hints(cls)
    return {
        key: (
            _field_words(field, hints[field.name]),
            "required" if field.default is field.default_factory else _code(_default(field)),
        )
        for key, field in fields.items()
    }


def _field_words(field: dataclasses.Field[Any], hint: Any) -> str:
    """Return the type of a field with its choices or range, from its metadata in the form of a JSON schema."""
    choices = KINDS if field.name == "kind" else field.metadata.get("enum")
    return " or ".join(map(_code, choices)) if choices else _type_words(hint) + _limits(dict(field.metadata))


def _default(field: dataclasses.Field[Any]) -> Any:
    made = field.default_factory
    return field.default if made is dataclasses.MISSING else made()


def _of_dataclass(cls: Any) -> dict[str, tuple[str, str]]:
    """Return type and default of every field of a dataclass."""
    return _of_fields(cls, {one.name: one for one in dataclasses.fields(cls)})


def _of_study() -> dict[str, tuple[str, str]]:
    """Return type and default of the keys of a study: the fields of its configuration, `fees` and `pools`."""
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
    """Return a type annotation in words."""
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
    """Return a default as typed at a terminal; empty if there is none."""
    plain = value.as_posix() if isinstance(value, Path) else value
    return "" if plain is None or plain is False else f"`{plain}`"


def _code(value: Any) -> str:
    """Return a default as written in TOML; empty if there is none."""
    return "" if value is None else f"`{_toml(value)}`"


def _toml(value: Any) -> str:
    if isinstance(value, tuple) and value and all(isinstance(one, dt.time) for one in value):
        return json.dumps("-".join(f"{one:%H:%M}" for one in value))
    if isinstance(value, Decimal):
        return str(plain_number(value))
    if isinstance(value, RiskProfile):
        return json.dumps(value.short)
    if isinstance(value, list) and value and all(isinstance(one, str) and one.count(":") == 2 for one in value):
        return json.dumps("-".join(one.removesuffix(":00") for one in value))
    return json.dumps(value, ensure_ascii=False)


def _table(header: list[str], rows: Iterable[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
