"""The letters that the consolidated tape has for exchanges."""

from __future__ import annotations

TAPE_VENUES = {
    "A": "XASE",
    "B": "XBOS",
    "C": "XCIS",
    "H": "EPRL",
    "I": "XISE",
    "J": "EDGA",
    "K": "EDGX",
    "L": "LTSE",
    "M": "XCHI",
    "N": "XNYS",
    "P": "ARCX",
    "Q": "XNAS",
    "T": "XNAS",
    "U": "MEMX",
    "V": "IEXG",
    "W": "XCBO",
    "X": "XPSX",
    "Y": "BATY",
    "Z": "BATS",
}
"""Market identifier codes by letter; NASDAQ has two letters."""

FINRA = "D"
"""The letter of quotes and trades away from exchanges, which are no book."""
