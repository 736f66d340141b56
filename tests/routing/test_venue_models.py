"""Venue models: the problem they make, split by split, and the files they are kept in."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riskroute.core.errors import DataError, InputError
from riskroute.learning.problem import Problem
from riskroute.routing.instances import PAPER_SHARES, PAPER_VENUES, paper_routing_instance
from riskroute.routing.splits import list_splits
from riskroute.routing.venue_models import (
    KINDS,
    VenueModel,
    best_correlated_split,
    load_venue_models,
    save_venue_models,
    venue_model_table,
    venue_problem,
)

NASDAQ = VenueModel("XNAS", (-0.07, -0.0002), (0.0, 0.00056))
DARK = VenueModel("Dark 1", (-0.05, 0.0003), (-0.01, 0.06), kind="dark")

any_float = st.floats(allow_nan=False, allow_infinity=False)
any_pair = st.tuples(any_float, any_float)
any_letter = st.characters(categories=("L", "Nd"))
any_rest = st.text(any_letter | st.sampled_from(" ._-/"), max_size=63)
any_name = st.tuples(any_letter, any_rest).map("".join).map(str.rstrip)
any_models = st.builds(
    VenueModel,
    name=st.builds(str.__add__, any_letter, st.text(any_letter | st.sampled_from(" ._-/"), max_size=63)).map(
        str.rstrip
    ),
    mean=any_pair,
    variance=any_pair,
    kind=st.sampled_from(KINDS),
    mean_error=st.none() | any_pair,
    variance_error=st.none() | any_pair,
)
moderate = st.floats(-2.0, 2.0)


@st.composite
def safe_models(draw: st.DrawFn) -> list[VenueModel]:
    """One to four venues whose variances cannot be negative."""
    positive = st.floats(0.0, 2.0)
    pairs = st.lists(st.tuples(st.tuples(moderate, moderate), st.tuples(positive, positive)), min_size=1, max_size=4)
    return [VenueModel(f"V{k}", mean, variance) for k, (mean, variance) in enumerate(draw(pairs))]


def moments_by_hand(models: list[VenueModel], splits: np.ndarray, base: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of every split, venue by venue, from the four coefficients."""
    means, variances = [], []
    for split in splits.tolist():
        means.append(sum(m.mean[0] * q + m.mean[1] * q * q for m, q in zip(models, split, strict=True)))
        risk = sum(m.variance[0] * q + m.variance[1] * q * q for m, q in zip(models, split, strict=True))
        variances.append(base + risk)
    return np.array(means), np.array(variances)


@settings(max_examples=40)
@given(models=safe_models(), shares=st.integers(1, 6), base=st.floats(0.0, 3.0), tolerance=st.floats(0.0, 5.0))
def test_money_problems_are_the_venues_own_formulas(
    models: list[VenueModel], shares: int, base: float, tolerance: float
) -> None:
    problem = venue_problem(models, shares, base_variance=base, risk_tolerance=tolerance)
    splits = list_splits(shares, len(models))
    means, variances = moments_by_hand(models, splits, base)
    np.testing.assert_allclose(problem.means(splits), means, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(problem.variances(splits), variances, rtol=1e-9, atol=1e-9)
    scores = variances - tolerance * means
    assert isinstance(problem.best, tuple)
    assert scores[splits.tolist().index(list(problem.best))] == pytest.approx(scores.min(), abs=1e-8)
    for model in models:
        assert model.mean_of(shares) == pytest.approx(model.mean[0] * shares + model.mean[1] * shares**2)
        assert model.variance_of(shares) == pytest.approx(model.variance[0] * shares + model.variance[1] * shares**2)


def test_the_best_split_is_a_tuple_with_and_without_caps() -> None:
    models = [VenueModel("A", (-0.07, -0.0002), (0.0, 0.0006)), VenueModel("B", (-0.05, 0.0), (0.0, 0.006))]
    assert venue_problem(models, 10).best == venue_problem(models, 10, caps=10).best == (6, 4)
    assert venue_problem(models, 10, most_listed=0).best == (6, 4)


def test_money_problems_are_sums_of_models_where_splits_are_not_listed() -> None:
    """Enough splits that they are never written down."""
    models = [VenueModel(f"V{k}", (-0.01 * k, -0.001), (0.001, 0.0001 * k)) for k in range(12)]
    problem = venue_problem(models, 100)
    split = np.array([[8] * 11 + [12]])
    expected = sum(model.mean_of(q) for model, q in zip(models, split[0].tolist(), strict=True))
    risk = sum(model.variance_of(q) for model, q in zip(models, split[0].tolist(), strict=True))
    assert problem.means(split)[0] == pytest.approx(expected)
    assert problem.variances(split)[0] == pytest.approx(1.0 + risk)


def norms(problem: Problem) -> tuple[float, float, float]:
    return (
        problem.actions.largest_norm(),
        float(np.linalg.norm(problem.mean_coef)),
        float(np.linalg.norm(problem.var_coef)),
    )


@settings(max_examples=40)
@given(models=safe_models(), shares=st.integers(1, 6), base=st.floats(0.1, 3.0))
def test_norm_1_problems_obey_the_norms_and_keep_directions(models: list[VenueModel], shares: int, base: float) -> None:
    money = venue_problem(models, shares, base_variance=base)
    scaled = venue_problem(models, shares, units="norm-1", base_variance=base)
    for norm, limit in zip(norms(scaled), (1.0, 1.0, base), strict=True):
        assert norm <= limit * (1 + 1e-9)
    for name, limit in (("mean_coef", 1.0), ("var_coef", base)):
        before, after = getattr(money, name), getattr(scaled, name)
        shrink = min(1.0, limit / max(float(np.linalg.norm(before)), 1e-300))
        np.testing.assert_allclose(after, before * shrink, rtol=1e-9, atol=1e-12)


def test_problems_are_checked() -> None:
    with pytest.raises(InputError, match="models must hold at least one venue, was empty"):
        venue_problem([], 10)
    with pytest.raises(InputError, match=r"models must have different names, was \['XNAS', 'Dark 1', 'XNAS'\]"):
        venue_problem([NASDAQ, DARK, NASDAQ], 10)
    with pytest.raises(InputError, match=r"units must be one of money, norm-1, was 'norm1'.*did you mean norm-1"):
        venue_problem([NASDAQ], 10, units="norm1")
    for shares in (0, -3, 2.5, None):
        with pytest.raises(InputError, match="shares must be a positive integer, was"):
            venue_problem([NASDAQ], shares)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="risk_tolerance must be a number of at least 0, was -1"):
        venue_problem([NASDAQ], 10, risk_tolerance=-1)
    with pytest.raises(InputError, match="base_variance must be a number of at least 0, was -1"):
        venue_problem([NASDAQ], 10, base_variance=-1)


def test_variances_below_zero_make_no_problem() -> None:
    """Twenty shares at -0.5 each take 10 from a base of 1."""
    falling = VenueModel("A", (-0.1, 0.0), (-0.5, 0.0))
    with pytest.raises(InputError, match="variance must be non-negative for every action, was -9"):
        venue_problem([falling, NASDAQ], 20)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": ""}, "name must be a name of up to 64 letters, digits, spaces or .* was ''"),
        ({"name": 3}, "name must be a name of up to 64 letters, digits, spaces or .* was 3"),
        ({"kind": "lit"}, "kind must be one of market, limit, dark, was 'lit'"),
        ({"kind": None}, "kind must be one of market, limit, dark, was None"),
        ({"mean": None}, "mean of A must be a list of numbers"),
        ({"mean": 1.0}, "mean of A must be a list of numbers"),
        ({"mean": (1.0,)}, "mean of A must have 2 entries, had 1"),
        ({"mean": (1.0, 2.0, 3.0)}, "mean of A must have 2 entries, had 3"),
        ({"variance": (1.0, math.nan)}, r"variance of A must be finite, was nan at \[1\]"),
        ({"variance": (math.inf, 1.0)}, r"variance of A must be finite, was inf at \[0\]"),
        ({"variance": ("1", "2")}, "variance of A must be a list of numbers"),
        ({"variance": (True, False)}, "variance of A must be a list of numbers"),
        ({"mean_error": (1.0,)}, "mean_error of A must have 2 entries, had 1"),
        ({"variance_error": "x"}, "variance_error of A must be a list of numbers"),
    ],
)
def test_models_are_checked(fields: dict[str, Any], message: str) -> None:
    whole: dict[str, Any] = {"name": "A", "mean": (1.0, 2.0), "variance": (3.0, 4.0)} | fields
    with pytest.raises(InputError, match=message):
        VenueModel(**whole)


@given(
    models=st.lists(any_models, min_size=1, max_size=4),
    about=st.lists(st.sampled_from(["AMZN", "two\nlines", "a = [", ""])),
)
def test_files_give_back_every_bit(
    models: list[VenueModel], about: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "round_trip.toml"
    loaded = load_venue_models(save_venue_models(models, path, about=about))
    assert loaded == models
    assert [repr(model) for model in loaded] == [repr(model) for model in models], "zeros keep their signs"


def test_saved_files_are_for_reading(tmp_path: Path) -> None:
    model = VenueModel("XNAS", (-0.07, -1e-07), (0.0, 0.00056), mean_error=(0.002, 1e-05))
    path = save_venue_models([model, DARK], tmp_path / "new" / "venues.toml", about=["AMZN on 2012-06-21"])
    assert path.read_text() == (
        "# AMZN on 2012-06-21\n"
        "\n"
        "[[venues]]\n"
        'name = "XNAS"\n'
        'kind = "market"\n'
        "mean = [-0.07, -1e-07]  # amount per quantity of 1, per squared quantity\n"
        "variance = [0.0, 0.00056]  # squared amount per quantity of 1, per squared quantity\n"
        "mean_error = [0.002, 1e-05]  # standard errors\n"
        "\n"
        "[[venues]]\n"
        'name = "Dark 1"\n'
        'kind = "dark"\n'
        "mean = [-0.05, 0.0003]  # amount per quantity of 1, per squared quantity\n"
        "variance = [-0.01, 0.06]  # squared amount per quantity of 1, per squared quantity\n"
    )
    assert [one.name for one in path.parent.iterdir()] == ["venues.toml"]


def test_files_written_by_hand_are_read(tmp_path: Path) -> None:
    path = tmp_path / "venues.toml"
    path.write_text(
        "venues = [ {name = 'A', mean = [-1, 0], variance = [0, 2]},\n"
        "  {mean = [-0.5, 1e-3], variance = [0.25, 0.0], kind = 'limit', name = 'A limit'} ]\n"
    )
    assert load_venue_models(path) == [
        VenueModel("A", (-1.0, 0.0), (0.0, 2.0)),
        VenueModel("A limit", (-0.5, 0.001), (0.25, 0.0), kind="limit"),
    ]


GOOD = {"name": "'A'", "mean": "[1.0, 2.0]", "variance": "[3.0, 4.0]"}


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"name": ""}, DataError, "venues.toml must be a file of .* with name, mean and variance: .*'name'"),
        ({"mean": ""}, DataError, "venues.toml must be a file of .* with name, mean and variance: .*'mean'"),
        ({"variance": ""}, DataError, "venues.toml must be a file of .*'variance'"),
        ({"colour": "1"}, DataError, "venues.toml must be a file of .*'colour'"),
        ({"name": "3"}, InputError, "name must be a name of up to 64 letters, .* was 3"),
        ({"kind": "'lit'"}, InputError, "kind must be one of market, limit, dark, was 'lit'"),
        ({"mean": "'x'"}, InputError, "mean of A must be a list of numbers"),
        ({"mean": "[1.0]"}, InputError, "mean of A must have 2 entries, had 1"),
        ({"variance": "[nan, 0.0]"}, InputError, "variance of A must be finite, was nan"),
    ],
)
def test_wrong_fields_in_files_are_named(
    tmp_path: Path, fields: dict[str, str], error: type[Exception], message: str
) -> None:
    path = tmp_path / "venues.toml"
    path.write_text("\n".join(["[[venues]]", *(f"{k} = {v}" for k, v in (GOOD | fields).items() if v)]))
    with pytest.raises(error, match=message):
        load_venue_models(path)


@pytest.mark.parametrize(
    "content", [b"", b"venues = 3", b"venues = [3]", b"[venues]\nname = 'A'", b"[[venues", b"\xff"]
)
def test_files_that_hold_no_venues_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "venues.toml"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"venues.toml must be a file of"):
        load_venue_models(path)
    with pytest.raises(DataError, match=r"absent.toml must be a file of"):
        load_venue_models(tmp_path / "absent.toml")


def test_files_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="path must be writable, was"):
        save_venue_models([NASDAQ], tmp_path / "file" / "venues.toml")


def test_the_table_has_a_column_per_venue_and_errors_where_known() -> None:
    estimated = VenueModel("XBOS", (-1.4709, -1e-06), (0.0, 123456.0), "market", (0.0123, 2e-07), (0.0, 4321.0))
    assert venue_model_table([NASDAQ, estimated]).splitlines() == [
        "         XNAS                XBOS",
        "---------------------------------",
        "p       -0.07      -1.471 +- 0.01",
        "p~    -0.0002     -1e-06 +- 2e-07",
        "var         0              0 +- 0",
        "var~  0.00056  1.235e+05 +- 4e+03",
    ]


def test_the_papers_table_is_as_printed() -> None:
    """Table of model parameters: p, p~, sigma^2, sigma~^2 per venue."""
    printed = {
        "PSX": (-1.1439, 0.0008, -0.031, 0.0391),
        "BX": (-1.4709, -0.000001, -0.000001, 0.000001),
        "NASDAQ": (-0.07, -0.0002, -0.000004, 0.00056),
        "Dark 1": (-0.05, 0.0003, -0.0191, 0.06),
        "Dark 2": (-0.01, 0.0002, -0.0091, 0.05),
    }
    assert {one.name: (*one.mean, *one.variance) for one in PAPER_VENUES} == printed
    assert [one.kind for one in PAPER_VENUES] == ["market", "market", "market", "dark", "dark"]
    assert PAPER_SHARES == 10


def test_the_papers_table_makes_both_problems() -> None:
    money, scaled = paper_routing_instance(), paper_routing_instance("norm-1")
    assert money.actions.size == scaled.actions.size == math.comb(14, 4)
    splits = list_splits(10, 5)
    means, variances = moments_by_hand(list(PAPER_VENUES), splits, 1.0)
    np.testing.assert_allclose(money.means(splits), means, atol=1e-12)
    np.testing.assert_allclose(money.variances(splits), variances, atol=1e-12)
    assert max(norms(scaled)) <= 1 + 1e-9
    with pytest.raises(InputError, match="units must be one of money, norm-1, was 'dollars'"):
        paper_routing_instance("dollars")


def correlated_models() -> list[VenueModel]:
    return [
        VenueModel("A", (-0.05, 0.0), (0.001, 0.004)),
        VenueModel("B", (-0.04, -0.0004), (0.0, 0.006)),
        VenueModel("C", (-0.02, 0.0), (0.002, 0.02)),
    ]


def test_uncorrelated_slots_get_the_best_split_of_the_problem() -> None:
    models = correlated_models()
    for shares in (1, 7, 20):
        result = best_correlated_split(models, shares, np.eye(3), risk_tolerance=1.5)
        assert result.units == venue_problem(models, shares, risk_tolerance=1.5).best


@pytest.mark.parametrize("seed", range(6))
def test_the_best_split_of_correlated_slots_is_that_of_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    models, root = correlated_models(), rng.standard_normal((3, 3))
    size = np.sqrt(np.diag(root @ root.T))
    rho = root @ root.T / np.outer(size, size)
    rho = (rho + rho.T) / 2
    np.fill_diagonal(rho, 1.0)
    result = best_correlated_split(models, 12, rho, risk_tolerance=2.0, caps=[12, 6, 6])

    def objective(split: np.ndarray) -> float:
        """Variance less risk tolerance times mean, from the definition."""
        deviations = np.array([np.sqrt(model.variance[1]) * q for model, q in zip(models, split, strict=True)])
        own = sum(model.variance[0] * q for model, q in zip(models, split, strict=True))
        mean = sum(model.mean_of(float(q)) for model, q in zip(models, split, strict=True))
        return float(deviations @ rho @ deviations + own - 2.0 * mean)

    splits = [split for split in list_splits(12, 3) if (split <= [12, 6, 6]).all()]
    assert result.value == pytest.approx(min(map(objective, splits)), rel=1e-9)
    assert result.value == pytest.approx(objective(np.array(result.units)))
    assert result.bound <= result.value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"correlation": np.array([[1.0, 0.5], [0.4, 1.0]])}, r"correlation must be a symmetric \(2, 2\) matrix"),
        ({"correlation": np.eye(3)}, "correlation must have 2 entries, had 3"),
        ({"correlation": np.full((2, 2), 2.0)}, "correlation must be at most 1 in magnitude"),
        (
            {"models": [VenueModel("A", (0.0, 0.0), (1.0, -0.1))], "correlation": [[1.0]]},
            "expected a variance per squared share of at least 0 for A",
        ),
        ({"models": []}, "models must hold at least one venue"),
        ({"caps": [1, 2]}, "caps must be at least 0 and add up to at least 10"),
    ],
)
def test_invalid_correlations_are_refused(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"models": correlated_models()[:2], "shares": 10, "correlation": np.eye(2)}
    with pytest.raises(InputError, match=message):
        best_correlated_split(**good | change)


def test_the_table_of_the_paper_has_all_its_splits_listed() -> None:
    assert repr(paper_routing_instance().actions) == "SplitList(10 shares over 5 slots, 1,001 allocations)"


def test_coefficients_are_printed_by_venue() -> None:
    table = venue_model_table([VenueModel("XNAS", (-0.07, -0.0002), (0.0, 0.00056))])
    rows = ["         XNAS", "-------------", "p       -0.07", "p~    -0.0002", "var         0", "var~  0.00056"]
    assert table.rstrip("\n").split("\n") == rows
