"""Linear Thompson sampling for the mean alone: what ignoring risk looks like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from riskroute.learning.policies.linear_policy import RiskNeutral
from riskroute.learning.policies.thompson import Thompson


@dataclass(kw_only=True)
class LinThompson(RiskNeutral, Thompson):
    """Thompson sampling that maximises the mean reward; parameters as in `Thompson`.

    Examples
    --------
    >>> from riskroute.learning.actions import Actions
    >>> from riskroute.learning.plan import Setting
    >>> import numpy as np
    >>> policy = LinThompson().start(Setting(actions=Actions(np.eye(2)), horizon=500), seed=1)
    >>> while policy.remaining:
    ...     action = policy.select()
    ...     policy.update(action, reward=float(policy.rng.normal(action)))
    >>> policy.recommend()
    1

    References
    ----------
    Agrawal and Goyal (2013), `Thompson Sampling for Contextual Bandits with Linear Payoffs
    <https://arxiv.org/abs/1209.3352>`_.
    """

    name: ClassVar[str] = "lin-thompson"
