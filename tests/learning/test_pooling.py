"""Partial pooling: what members share, and when they go their own way."""

from __future__ import annotations

import numpy as np
import pytest

from riskroute.core.errors import InputError
from riskroute.learning.pooling import member_coef, pooled_features, pooled_prior
from riskroute.learning.two_maps import TwoMapEstimate, TwoMapRows, fit_two_maps


def test_pooled_features_give_each_member_its_own_coefficients() -> None:
    rng = np.random.default_rng(1)
    features, members, coef = rng.standard_normal((20, 3)), rng.integers(0, 4, 20), rng.standard_normal(15)
    pooled = pooled_features(features, members, 4) @ coef
    own = [row @ member_coef(coef, member, 4) for row, member in zip(features, members.tolist(), strict=True)]
    assert pooled.tolist() == pytest.approx(own)
    assert (pooled_features(features, np.full(20, -1), 4) @ coef).tolist() == pytest.approx(
        (features @ coef[:3]).tolist()
    )


def test_a_member_with_few_rows_follows_the_others_and_one_with_many_goes_its_own_way() -> None:
    """Member 0 is as the others and has three rows, member 3 differs by 0.5 and has a thousand."""
    rng = np.random.default_rng(2)
    members = np.concatenate([np.zeros(3, np.int64), np.repeat([1, 2, 3], 1000)])
    x = rng.standard_normal((len(members), 1))
    slopes = np.array([1.0, 1.0, 1.0, 1.5])[members]
    rewards = slopes * x[:, 0] + rng.standard_normal(len(members))
    means, deviations = pooled_prior([0.0], [2.0], 4)
    prior = TwoMapEstimate.independent(means, deviations, [1.0], [1.0])
    found = fit_two_maps(TwoMapRows(pooled_features(x, members, 4), np.ones((len(x), 1)), rewards), prior)
    slope = [member_coef(found.mean_coef, member, 4)[0] for member in range(4)]
    assert slope[1:] == pytest.approx([1.0, 1.0, 1.5], abs=0.1)  # three standard errors of 0.03
    alone = fit_two_maps(
        TwoMapRows(x[:3], np.ones((3, 1)), rewards[:3]), TwoMapEstimate.independent([0.0], [2.0], [1.0], [1.0])
    )
    assert abs(slope[0] - 1) < abs(alone.mean_coef[0] - 1)
    covariance, both = np.linalg.inv(found.mean_precision), np.eye(5)[1:] + np.eye(5)[0]
    errors = np.sqrt(np.einsum("ij,jk,ik->i", both, covariance, both))
    assert errors[0] > 5 * errors[3]  # what little is known of member 0 is said


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="members must be from 0 to 1, or -1 for none"):
        pooled_features(np.ones((1, 1)), np.array([2]), 2)
    with pytest.raises(InputError, match="coef must have a multiple of 3 entries, had 4"):
        member_coef(np.ones(4), 0, 2)
    with pytest.raises(InputError, match="deviations must have 1 entries, had 2"):
        pooled_prior([0.0], [1.0, 1.0], 2)
