"""A test for change: whether the last errors of prediction, over their deviations, are what they should be.

If a belief is right, standardised errors have mean zero and variance one. Over a window of the last ``n`` of them their
sum of squares is compared with a chi-squared law, and so is the square of their sum, over ``n``: the one finds noise
that has grown and large shifts, the other small shifts that last. Squares of heavy-tailed errors vary more; the law of
their sum is matched in mean and variance, with ``2 n / (kurtosis - 1)`` degrees of freedom.

After an alarm the belief is best reset to its prior, and the window begins anew.

References
----------
Wu, Iyer and Wang (2018), `Learning Contextual Bandits in a Non-stationary Environment
<https://arxiv.org/abs/1805.09365>`_.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import chdtrc

from riskroute.core.arrays import Vector
from riskroute.core.errors import InputError, StateError, described
from riskroute.core.validation import finite_array, real_number, whole_number
from riskroute.learning.heteroscedastic import KURTOSIS


class ResidualTest:
    """Chi-squared tests of the last standardised errors.

    Parameters
    ----------
    length : int
        Errors in the window.
    level : float
        Probability of a false alarm per test; half of it for each of the two sums.
    least : int
        Errors that must be there before anything is tested.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> test = ResidualTest(length=40)
    >>> any(test.add(rng.standard_normal(1)) for _ in range(2000))
    False
    >>> next(n for n in range(1, 41) if test.add(rng.standard_normal(1) + 2))  # rows until a shift by two is found
    15
    """

    def __init__(self, length: int = 50, level: float = 1e-6, least: int = 10) -> None:
        self.length = whole_number("length", length, maximum=10**6)
        self.level = real_number("level", level, above=0, below=1)
        self.least = whole_number("least", least, maximum=self.length)
        self.window: Vector = np.zeros(0)

    def add(self, errors: Vector, kurtosis: float = 3.0) -> bool:
        """Take standardised errors, and say whether the window contradicts the belief; an alarm empties it."""
        errors = finite_array("errors", errors, ndim=1)
        kurtosis = real_number("kurtosis", kurtosis, minimum=KURTOSIS[0])
        self.window = np.concatenate([self.window, errors])[-self.length :]
        n = len(self.window)
        if n < self.least:
            return False
        free = 2 / (kurtosis - 1)
        chance = min(
            float(chdtrc(n * free, free * float(self.window @ self.window))),
            float(chdtrc(1, float(self.window.sum()) ** 2 / n)),
        )
        alarm = chance < self.level / 2
        if alarm:
            self.window = np.zeros(0)
        return alarm

    def state(self) -> dict[str, Any]:
        """Everything, as plain JSON values."""
        return {"length": self.length, "level": self.level, "least": self.least, "window": self.window.tolist()}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Self:
        """Rebuild the test of a saved state."""
        try:
            test = cls(state["length"], state["level"], state["least"])
            if state["window"]:
                test.window = finite_array("window", state["window"], ndim=1)[-test.length :]
        except (KeyError, TypeError, InputError) as error:
            what = error if isinstance(error, InputError) else described(state)
            raise StateError(f"state of a residual test must be one that state() returned: {what}") from error
        return test
