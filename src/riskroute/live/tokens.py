"""Tokens: who may do what is known by their hashes alone."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from typing import Protocol

HASH = "sha256:"
"""How the hash of a token begins; tokens are random and long, so a plain hash of one cannot be undone."""

LONGEST_TOKEN = 200
"""Characters of a token, at most."""


class Known(Protocol):
    """What is known of a token: its hash, and what it is good for."""

    @property
    def hash(self) -> str:
        """As `token_hash` gives it."""

    @property
    def scopes(self) -> Sequence[str]:
        """What it is good for."""


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(32)


def token_hash(token: str) -> str:
    """The hash of a token, as it stands in the configuration."""
    return HASH + hashlib.sha256(token.encode()).hexdigest()


def token_owner(tokens: Mapping[str, Known], token: str) -> tuple[str, frozenset[str]] | None:
    """Who has a token, and its scopes; None if nobody has. The time does not tell how near a guess was."""
    given, found = token_hash(token), None
    for name, one in tokens.items():
        if hmac.compare_digest(given, one.hash):
            found = name, frozenset(one.scopes) | {"read"}
    return found


def bearer_owner(tokens: Mapping[str, Known], header: str) -> tuple[str, frozenset[str]] | None:
    """Who sent a header ``Authorization``, and the scopes of the token; None if the token is nobody's or missing."""
    word, _, token = header.partition(" ")
    if word.lower() != "bearer" or not 0 < len(token) <= LONGEST_TOKEN:
        return None
    return token_owner(tokens, token)
