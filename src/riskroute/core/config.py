"""Read and validate TOML configuration files; an error describes the first mistake on one line."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError

from riskroute.core.errors import InputError
from riskroute.core.text import shown
from riskroute.core.validation import instance_of, is_valid_name, valid_name_rule, valid_path

Model = TypeVar("Model", bound=BaseModel)


def config_list(value: Any) -> Any:
    """Wrap a single value in a list; return a list unchanged."""
    return value if isinstance(value, list) else [value]


Count = Annotated[int, Field(ge=1, strict=True)]
Counts = Annotated[list[Count], BeforeValidator(config_list), Field(min_length=1)]
Seed = Annotated[int, Field(ge=0, strict=True)]
Tolerances = Annotated[
    list[Annotated[float, Field(ge=0, allow_inf_nan=False)]], BeforeValidator(config_list), Field(min_length=1)
]
Texts = Annotated[list[str], BeforeValidator(config_list)]


def _named(value: str) -> str:
    if not is_valid_name(value):
        raise ValueError(valid_name_rule())
    return value


Name = Annotated[str, AfterValidator(_named)]
Names = Annotated[list[Name], BeforeValidator(config_list)]


def read_toml_config(path: Path) -> dict[str, Any]:
    """Return the contents of a TOML file as a dictionary."""
    path = valid_path("config", path)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"config must be a readable file, was {str(path)!r}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"config must be TOML, was {path.name!r}: {error}") from None


def validated_config(model: type[Model], values: dict[str, Any]) -> Model:
    """Return an instance of ``model`` with the given values; raise `InputError` for the first invalid one."""
    instance_of("config", values, dict, "a dictionary")
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise InputError(_explained(model, error)) from None


def config_all_different(name: str, values: list[Any]) -> None:
    """Raise `InputError` if a value occurs more than once."""
    twice = [value for value in values if values.count(value) > 1]
    if twice:
        raise InputError(f"{name} must have different values, found {shown(twice[0])} more than once")


def _explained(model: type[BaseModel], error: ValidationError) -> str:
    found = error.errors()
    first = max((one for one in found if one["loc"][0] == found[0]["loc"][0]), key=lambda one: len(one["loc"]))
    field = ".".join(str(part) for part in first["loc"] if not str(part).startswith(("list[", "constrained", "int")))
    if first["loc"][-1] == "[key]":
        field = f"name in {'.'.join(map(str, first['loc'][:-2]))}"
    if first["type"] == "extra_forbidden":
        known = f"; fields are {', '.join(model.model_fields)}" if len(first["loc"]) == 1 else ""
        return f"unknown field {field}, was {shown(first['input'])}{known}"
    if first["type"] == "too_short":
        return f"{field} must have at least one value, was []"
    if first["type"] == "missing":
        return f"{field} must be given, was missing"
    expected = first["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return f"{field} must be {expected}, was {shown(first['input'])}"
