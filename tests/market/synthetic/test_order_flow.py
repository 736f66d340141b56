"""Order flow of one symbol: the compiled version against the plain one, fills, and quotes that are always shown."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riskroute.market.clock import SECOND
from riskroute.market.synthetic import order_flow as flow
from riskroute.market.synthetic.order_flow import (
    _FlowParameters,
    _queue_shares,
    _simulate_compiled,
    _simulate_order_flow,
)

CHARACTER = _FlowParameters(
    gap=2e7,
    orders=16,
    lot=40,
    top_size=5,
    top_share=0.3,
    reach=4.0,
    furthest=40,
    takers=0.1,
    hidden=0.03,
    partial=0.05,
    replaced=0.1,
    moved=0.2,
    sweep=0.3,
    pro_rata=False,
)
STEP = SECOND // 4


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=8), st.floats(0, 1), st.booleans())
def test_fills_are_whole_and_complete(sizes: list[int], part: float, pro_rata: bool) -> None:
    amount = int(part * sum(sizes))
    shares = _queue_shares(np.array(sizes), amount, pro_rata)
    assert shares.sum() == amount
    assert (shares >= 0).all()
    assert (shares <= sizes).all()
    if pro_rata:
        assert (shares >= np.floor(np.array(sizes) * amount / sum(sizes) - 1e-6)).all()
        assert np.abs(shares - np.array(sizes) * amount / sum(sizes)).max() <= len(sizes)


def walk(seed: int, steps: int) -> np.ndarray:
    """Quotes that jump, widen and narrow much more than those of a calm market."""
    rng = np.random.default_rng(seed)
    bid = 10_000 + rng.integers(-12, 13, steps).cumsum()
    return np.column_stack([bid, bid + rng.integers(1, 15, steps)])


@pytest.mark.parametrize("pro_rata", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_compiled_flow_equals_the_plain_one(seed: int, pro_rata: bool) -> None:
    arguments = (CHARACTER._replace(pro_rata=pro_rata), walk(seed, 40), 7, 7 + 10 * SECOND, STEP)
    plain, fast = (run(np.random.default_rng(seed), *arguments) for run in (_simulate_order_flow, _simulate_compiled))
    assert len(plain) > 500
    assert set(plain[:, flow.COLUMN.kind]) == {ord(kind) for kind in "AFECXDUP"}
    assert np.array_equal(plain, fast)


@pytest.mark.parametrize("gap", [1e6, 1e8, 3e9])
def test_flow_shows_the_quotes_outside_of_moves(gap: float) -> None:
    """Quotes that stay for long are shown in the end, by enough shares and levels, however rare messages are."""
    quotes = np.repeat(walk(5, 6), 40, axis=0)
    end = len(quotes) * STEP
    rows = _simulate_compiled(np.random.default_rng(1), CHARACTER._replace(gap=gap), quotes, 0, end, STEP)
    assert (np.diff(rows[:, flow.COLUMN.time]) >= 0).all()
    assert rows[-1, flow.COLUMN.time] < end
    sides: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
    where: dict[int, list[int]] = {}
    for _, kind, side, price, size, order, old in rows.tolist():
        if kind in (flow.MESSAGE.add, flow.MESSAGE.attributed, flow.MESSAGE.replace):
            if kind == flow.MESSAGE.replace:
                where.pop(old)
            where[order] = [side, price, size]
        elif kind == flow.MESSAGE.delete:
            where.pop(order)
        elif kind != flow.MESSAGE.trade:
            where[order][2] -= size
            assert where[order][2] >= 0
    for side, price, size in where.values():
        sides[side][price] += size
    shown = [{price: size for price, size in side.items() if size} for side in sides]
    assert (max(shown[0]), min(shown[1])) == tuple(quotes[-1])
    assert all(len(side) >= flow._FEWEST_LEVELS for side in shown)
    assert shown[0][quotes[-1, 0]] >= CHARACTER.top_size <= shown[1][quotes[-1, 1]]
