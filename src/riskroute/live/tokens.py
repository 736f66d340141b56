"""Tokens of the HTTP service: secrets of clients. The configuration holds only their hashes and scopes."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from riskroute.core.config import config_list

Scope = Literal["trade", "halt", "read"]


def new_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(32)


def token_hash(token: str) -> str:
    """Return the hash of a token for the configuration, without a salt, since tokens have 256 random bits."""
    return "sha256:" + hashlib.sha256(token.encode()).hexdigest()


def _hash(value: str) -> str:
    digits = value.removeprefix("sha256:")
    if digits == value or len(digits) != 64 or set(digits) - set("0123456789abcdef"):
        raise ValueError("sha256: and 64 hexadecimal digits, as `riskroute live init` writes it")
    return value


class TokenConfig(BaseModel):
    """A token of the service: its hash and its scopes. Scopes trade and halt include read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hash: Annotated[str, AfterValidator(_hash)] = Field(repr=False)
    scopes: Annotated[list[Scope], BeforeValidator(config_list), Field(min_length=1)]


def token_owner(tokens: Mapping[str, TokenConfig], authorization: str) -> tuple[str, frozenset[str]] | None:
    """Return name and scopes of the token in an ``Authorization`` header; None without a known bearer token."""
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or not 0 < len(token) <= 200:
        return None
    given, found = token_hash(token), None
    for name, one in tokens.items():  # always all of them, each in constant time: timing reveals nothing
        if hmac.compare_digest(given, one.hash):
            found = name, frozenset(one.scopes) | {"read"}
    return found
