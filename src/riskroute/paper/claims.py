"""What the paper says in words about its experiments, beside what was measured here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from riskroute.core.text import in_markdown_cell
from riskroute.paper.book_claims import BOOK_CLAIMS
from riskroute.paper.claim import Claim
from riskroute.paper.regret_claims import REGRET_CLAIMS

Summaries = Mapping[str, Mapping[str, Any]]
"""By experiment: what its JSON summary holds."""

CLAIMS = (*BOOK_CLAIMS, *REGRET_CLAIMS)


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim and what became of it."""

    claim: Claim
    measured: str
    agrees: bool


def judge_claims(summaries: Summaries) -> list[ClaimVerdict]:
    """Check the claims about some experiments, which must have been played in full."""
    found = []
    for claim in CLAIMS:
        if claim.experiment in summaries:
            measured, agrees = claim.measure(summaries[claim.experiment])
            found.append(ClaimVerdict(claim, measured, bool(agrees)))
    return found


def claims_markdown(verdicts: list[ClaimVerdict], *, remarks: bool = True) -> str:
    """One table row per claim, with or without what is remarked on our own choices."""
    columns = ["where", "the paper says", "measured", "agrees", *["remark"] * remarks]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for v in verdicts:
        measured, agrees = in_markdown_cell(v.measured), "yes" if v.agrees else "**no**"
        cells = [v.claim.where, v.claim.text, measured, agrees, *[v.claim.remark] * remarks]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
