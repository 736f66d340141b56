"""Known answers of small helpers: errors of the checks, texts of numbers, kernels of small matrices."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riskroute.core.errors import DataError, InputError, RiskrouteError
from riskroute.core.files import in_file_name, writable_folder
from riskroute.core.records import check_finite_record
from riskroute.core.runtime import cached, require_extra
from riskroute.core.seeding import seeded_generator, seeded_uniform
from riskroute.core.text import described, fixed_text, in_markdown, money_text, rounds_to_zero, shown
from riskroute.core.validation import (
    exact_array,
    instance_of,
    is_valid_name,
    true_or_false,
    unvalidated,
    valid_list,
    valid_magnitude,
)
from riskroute.learning.kernels import padded_kernel_length, positive_definite_inverse, upper_triangular_root
from riskroute.routers.context import ContextPool


@pytest.mark.parametrize(
    ("check", "arguments", "message"),
    [
        (true_or_false, ("corrected", 1), "corrected must be True or False, was 1"),
        (instance_of, ("prior", 3, list, "a list"), "prior must be a list, was int"),
        (valid_list, ("venues", ["XNAS", 3], str, "strings"), r"venues must be a list of strings, was 3 at \[1\]"),
        (exact_array, ("counts", [1.5, 2.0], np.int64, (2,)), "counts must be integers, was float64"),
        (valid_magnitude, ("scale", 1e300), r"scale must be 0 or between 1e-30 and 1e\+30 in magnitude, was 1e\+300"),
        (seeded_generator, (-1,), "seed must be a non-negative integer or a SeedSequence, was -1"),
        (writable_folder, ("out", __file__), "out must be a folder, was "),
    ],
)
def test_checks_name_field_expectation_and_value(check: Any, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check(*arguments)


def test_exact_arrays_and_folders_are_returned_in_their_type(tmp_path: Path) -> None:
    assert exact_array("counts", [1, 2], np.int64, (2,)).tolist() == [1, 2]
    assert writable_folder("out", str(tmp_path / "new")) == tmp_path / "new"


def test_saved_numbers_must_be_finite() -> None:
    with pytest.raises(DataError, match=r"scores.P\[1\] must be a finite number, was nan"):
        check_finite_record({"P": [0.5, math.nan]}, "scores")


def test_a_missing_library_is_named_with_the_command_to_install_it() -> None:
    with pytest.raises(RiskrouteError, match=r"seances need ouija: pip install 'riskroute\[spirits\]'"):
        require_extra("seances", "spirits", "ouija")


def test_records_without_checks_equal_checked_ones() -> None:
    assert unvalidated(ContextPool, {"name": "P", "fee": 0.001, "improvement": 0.0}) == ContextPool("P", 0.001)


def test_a_cached_property_is_computed_once() -> None:
    calls = []

    class Order:
        @cached
        def shares(self) -> int:
            calls.append(1)
            return 300

    order = Order()
    assert (order.shares, order.shares, len(calls)) == (300, 300, 1)


def test_draws_by_identity_have_known_values() -> None:
    assert (round(seeded_uniform(1, "pool", 7), 4), round(seeded_uniform(2, "pool", 7), 4)) == (0.3716, 0.459)


def test_values_in_errors_are_short() -> None:
    assert (shown([1, 2]), len(shown("x" * 100))) == ("[1, 2]", 80)
    assert (described(3), described(None), described([1, 2])) == ("3", "None", "a list")


def test_texts_of_numbers_have_no_sign_for_zero() -> None:
    assert [fixed_text(-0.004), fixed_text(-0.006), fixed_text(1234.5, 1), fixed_text(None)] == [
        *("0.00", "-0.01", "1,234.5", "-")
    ]
    assert (fixed_text(0.25, 3, signed=True), fixed_text(-1e-5, 3, signed=True)) == ("+0.250", "0.000")
    assert (rounds_to_zero(-0.004), rounds_to_zero(0.006), rounds_to_zero(0.0004, 3)) == (True, False, True)
    assert [money_text(x, "USD") for x in (-0.3456, 1234.6, 12.3, -1e-9, None)] == [
        *("-0.346 USD", "1,234.60 USD", "12.30 USD", "0.000 USD", "-")
    ]


def test_texts_are_escaped_for_markdown_and_file_names() -> None:
    assert in_markdown("a|b `c` <img> [d](e)") == r"a&#124;b \`c\` &lt;img&gt; \[d\](e)"
    assert (in_markdown("# no heading"), in_markdown("1. no list")) == (r"\# no heading", r"1\. no list")
    assert in_markdown("-$0.35", cell=True) == "-$0.35"
    assert (in_file_name("BRK.B"), in_file_name("a_b/../c")) == ("BRK.B", "a%5Fb%2F..%2Fc")
    assert [is_valid_name(x) for x in ("Dark 1", "BRK.B", "Börse/Süd", "<!--<script>", "")] == [True] * 3 + [False] * 2


def test_small_matrices_are_factored_and_inverted() -> None:
    root = np.zeros((2, 2))
    assert upper_triangular_root(np.array([[4.0, 2.0], [2.0, 5.0]]), root)
    assert root.tolist() == [[2.0, 1.0], [0.0, 2.0]]
    assert not upper_triangular_root(np.array([[1.0, 2.0], [2.0, 1.0]]), root)
    found = positive_definite_inverse(np.array([[4.0, 0.0], [0.0, 16.0]]))
    assert found is not None
    assert found.tolist() == [[0.25, 0.0], [0.0, 0.0625]]
    assert (padded_kernel_length(16), padded_kernel_length(17)) == (16, 32)
