"""Linear Thompson sampling for the mean alone: what ignoring risk looks like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from riskroute.learning.policies.linear_policy import RiskNeutral
from riskroute.learning.policies.thompson import Thompson


@dataclass(kw_only=True)
class LinThompson(RiskNeutral, Thompson):
    """Thompson sampling that maximises the mean reward; parameters as in `Thompson`."""

    name: ClassVar[str] = "lin-thompson"
