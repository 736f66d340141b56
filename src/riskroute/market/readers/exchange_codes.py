"""Exchange codes of the consolidated tape: letter to market identifier code."""

from __future__ import annotations

# NASDAQ has two letters, one per tape. D (FINRA) is missing: its quotes come from outside the exchanges.
EXCHANGE_CODES = {
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
