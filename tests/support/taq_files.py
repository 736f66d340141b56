"""Small files of quotes as NYSE's Daily TAQ and WRDS write them."""

from __future__ import annotations

from typing import NamedTuple

TAQ_NAME = "SPLITS_US_ALL_BBO_A_20190327"
OPEN = 34_200 * 10**9
"""09:30 in nanoseconds since midnight, New York."""

HEADER = (
    "Time|Exchange|Symbol|Bid_Price|Bid_Size|Offer_Price|Offer_Size|Quote_Condition|Sequence_Number|National_BBO_Ind|"
    "FINRA_BBO_Indicator|FINRA_ADF_MPID_Indicator|Quote_Cancel_Correction|Source_Of_Quote"
)
WRDS_HEADER = (
    "DATE,TIME_M,EX,SYM_ROOT,SYM_SUFFIX,BID,BIDSIZ,ASK,ASKSIZ,QU_COND,QU_SEQNUM,NATBBO_IND,QU_CANCEL,QU_SOURCE"
)


class Quote(NamedTuple):
    """A row; ``time`` in nanoseconds since midnight in New York, sizes in lots."""

    time: int
    letter: str = "N"
    bid: float = 10.0
    bid_size: int = 3
    ask: float = 10.01
    ask_size: int = 5
    condition: str = "R"
    cancelled: str = "A"
    symbol: str = "ACME"


def clock(time: int, form: str) -> str:
    """Hours, minutes, seconds and nanoseconds in a form."""
    seconds, rest = divmod(time, 10**9)
    return form.format(seconds // 3600, seconds // 60 % 60, seconds % 60, rest)


def taq_text(quotes: list[Quote], *, end: bool = True) -> str:
    """A file of Daily TAQ, with its last line or without."""
    rows = [HEADER]
    for k, one in enumerate(quotes, start=1):
        time = clock(one.time, "{:02d}{:02d}{:02d}{:09d}")
        cells = (time, one.letter, one.symbol, one.bid, one.bid_size, one.ask, one.ask_size, one.condition, k)
        rows.append("|".join(map(str, cells)) + f"||||{one.cancelled}|C")
    return "\n".join([*rows, *([f"END|20190327|{len(quotes):09d}||||||||||"] if end else [])]) + "\n"


def wrds_text(quotes: list[Quote], day: str = "2019-03-27", *, lower: bool = False) -> str:
    """An extract of WRDS, its header in upper or lower case."""
    rows = [WRDS_HEADER.lower() if lower else WRDS_HEADER]
    for k, one in enumerate(quotes, start=1):
        root, _, suffix = one.symbol.partition(" ")
        time = clock(one.time, "{:d}:{:02d}:{:02d}.{:09d}")
        cells = (day, time, one.letter, root, suffix, one.bid, one.bid_size, one.ask, one.ask_size, one.condition, k)
        rows.append(",".join(map(str, cells)) + f",,{one.cancelled},C")
    return "\n".join(rows) + "\n"
