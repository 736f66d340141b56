"""Names from outside are checked where they enter; every text is escaped where it leaves."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pages import cells_of
from riskroute import simulate
from riskroute.cli.app import run_app as command
from riskroute.core.errors import InputError, RiskrouteError
from riskroute.core.files import in_file_name
from riskroute.core.text import in_markdown
from riskroute.core.validation import LONGEST_SYMBOL, LONGEST_VENUE, as_name
from riskroute.learning.problem import Problem
from riskroute.market.dark_pools import DarkPool
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import Recording
from riskroute.market.scenarios import ScenarioSlot
from riskroute.market.synthetic.generate import generate_market
from riskroute.paper.claims import _Claim, _ClaimVerdict, claims_markdown
from riskroute.paper.figures import _plot_panels, plot_fits
from riskroute.routing.fees import Fee, load_fees
from riskroute.routing.venue_models import VenueModel
from riskroute.study.config import split_config

HOSTILE = (
    "<!--<script>",
    "</script><script>alert(1)</script>",
    "a|b",
    "`code`",
    "[x](javascript:alert(1))",
    "<b>bold</b>",
    "&lt;",
    "line\nbreak",
    "=1+2",
    "@here",
    "\u2028",
    "\x1b[31m",
    "$x^2$",
    "\\",
    '"quoted"',
)
"""No names, and all of them trouble somewhere."""

GOOD = ("XNAS", "Dark 1", "BRK.B", "BF-B", "A_B", "A/B", "Börse Süd", "東証", "0.5 wide", "٣", "x" * 64)


@pytest.mark.parametrize("name", GOOD)
def test_ordinary_names_pass(name: str) -> None:
    assert as_name("name", name) == name


@pytest.mark.parametrize(
    "value",
    [*HOSTILE, "", " ", " a", "a ", "-a", ".", "../x", "/etc", "a\tb", "x" * 65, "a²", "a\u202eb", None, 3, b"a"],
)
def test_everything_else_is_refused_in_one_sentence(value: Any) -> None:
    with pytest.raises(InputError) as caught:
        as_name("name of a pool", value)
    rule = (
        "name of a pool must be a name of up to 64 letters, digits, spaces or ._-/ that begins with a letter or digit "
        "and does not end with a space"
    )
    assert str(caught.value) == f"{rule}, was {value!r}"


def test_a_very_long_value_is_not_said_in_full() -> None:
    with pytest.raises(InputError) as caught:
        as_name("name", "x" * 10**6)
    assert len(str(caught.value)) < 250


_ENTRIES: dict[str, Callable[[str], Any]] = {
    "VenueModel": lambda name: VenueModel(name, (0.0, 0.0), (0.0, 0.0)),
    "DarkPool": lambda name: DarkPool(0.5, 1.0, name=name),
    "ScenarioSlot": ScenarioSlot,
    "Fee": lambda name: Fee(name, dt.date(2019, 1, 1), 0.0, 0.0),
    "ReadingOptions symbol": lambda name: ReadingOptions((name,)),
    "ReadingOptions venue": lambda name: ReadingOptions(venue=name),
    "Recording venue": lambda name: Recording(name, "ACME", dt.date(2019, 1, 1), 1, "", "table"),
    "Recording symbol": lambda name: Recording("XNAS", name, dt.date(2019, 1, 1), 1, "", "table"),
    "study symbol": lambda name: split_config({"symbol": name}),
    "study venue": lambda name: split_config({"data": "x", "venue": name}),
    "study market": lambda name: split_config({"market": [name]}),
    "study limit": lambda name: split_config({"limit": name}),
    "study caps": lambda name: split_config({"caps": {name: 1}}),
    "study pool": lambda name: split_config({"dark": [{"name": name, "presence": 0.5, "tail": 1.0}]}),
    "pool's venue": lambda name: split_config({"dark": [{"name": "A", "presence": 0.5, "tail": 1.0, "venue": name}]}),
    "synthetic symbol": lambda name: generate_market(Path("nowhere"), symbols=(name,)),
}


@pytest.mark.parametrize("entry", _ENTRIES)
def test_hostile_names_enter_nowhere(entry: str) -> None:
    for name in HOSTILE:
        with pytest.raises(InputError, match=r" must (be|have) .* was ") as caught:
            _ENTRIES[entry](name)
        assert "\n" not in str(caught.value)


def test_hostile_names_in_files_and_options_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fees = tmp_path / "fees.toml"
    fees.write_text('[[fees]]\nvenue = "<!--<script>"\nfrom = 2019-01-01\ntaker = 0.003\nmaker = 0.0\n')
    with pytest.raises(RiskrouteError, match=r"venue of a fee must be a name .* was '<!--<script>'"):
        load_fees(fees)
    (tmp_path / "books.csv").write_text("")
    for words in (
        ["market", "import", str(tmp_path / "books.csv"), "--symbol", "a|b"],
        ["market", "import", str(tmp_path / "books.csv"), "--venue", "<b>"],
        ["market", "generate", "--symbols", "<b>", "--out", str(tmp_path / "market")],
    ):
        assert command(words) == 2
        said = capsys.readouterr().err
        assert len(said.splitlines()) == 1
        assert " must " in said


@pytest.mark.parametrize("label", ["rise++", "adaptive, warm", "start: 4 rounds (20 %)", "patience=0.5"])
def test_labels_of_policies_may_describe(small_problem: Problem, label: str) -> None:
    assert list(simulate(small_problem, {label: "uniform"}, 10, 1).policies) == [label]


@pytest.mark.parametrize("label", ["", "<!--<script>", "a|b", "[red]", "a\nb", 3])
def test_labels_of_policies_are_checked(small_problem: Problem, label: Any) -> None:
    with pytest.raises(InputError, match="label of a policy must be a name of up to 64 letters"):
        simulate(small_problem, {label: "uniform"}, 10, 1)


@given(st.lists(st.text(max_size=6), min_size=2, max_size=2, unique=True))
def test_file_names_are_harmless_and_stay_different(texts: list[str]) -> None:
    one, other = (in_file_name(text.encode("utf-8", "ignore").decode()) for text in texts)
    assert not re.search(r'[/\\_\s*?<>|:"\x00-\x1f]', one + other)
    if all(text == text.encode("utf-8", "ignore").decode() for text in texts):
        assert one != other
        assert f"{one}_{other}" != f"{other}_{one}"


@pytest.mark.parametrize("letter", ["x", "é", "東", "𐌰", "/", " "])
def test_the_longest_names_fit_into_a_file_name(tmp_path: Path, letter: str) -> None:
    venue, symbol = ("a" + letter * (longest - 2) + "a" for longest in (LONGEST_VENUE, LONGEST_SYMBOL))
    stem = Recording(venue, symbol, dt.date(2019, 1, 1), 1, "", "table").stem
    path = tmp_path / f".{stem}.1234567.snapshots.parquet"
    path.write_text("")
    assert path.exists()


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_reads_as_the_text(text: str) -> None:
    for escape in (in_markdown, partial(in_markdown, cell=True)):
        written = escape(text)
        assert "\n" not in written
        assert len(cells_of(f"| {written} | 1 |")) == 2
        assert not re.search(r"(?<!\\)[`\[\]*_<>|~]", written)
        assert not re.search(r"&(?!(amp|lt|gt|#124|#126);)", written)
        assert not re.search(r"[\x00-\x1f\x7f]", written)


@pytest.mark.parametrize("text", ["# a", "- a", "+ a", "1. a", "12) a", "---", "-"])
def test_a_text_begins_no_block_of_markdown(text: str) -> None:
    assert re.match(r"(\d+)?\\[#+.)-]", in_markdown(text))
    assert in_markdown(text, cell=True) == text


@pytest.mark.parametrize(
    "text", ["4 XNAS, 1,200 Dark 1", "-$0.346", "10.5 %", "adaptive, warm", "$5.15 ± $0.046", "rise++"]
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert in_markdown(text, cell=True) == text
    assert in_markdown(f"It cost {text}.") == f"It cost {text}."


def test_claims_keep_their_columns_whatever_venues_are_called() -> None:
    claim = _Claim("figure5", "figure 5", "the mean is linear", lambda _: ("", True))
    rows = claims_markdown([_ClaimVerdict(claim, f"R^2: {name} 0.99", True) for name in HOSTILE]).splitlines()
    assert {len(cells_of(row)) for row in rows} == {5}
    assert len(rows) == 2 + len(HOSTILE)


CURVE = {"checkpoints": (1, 2), "mean_regret": (0.0, 1.0), "std_regret": (0.0, 0.1), "runs": 2}


def test_figures_draw_whatever_venues_and_policies_are_called(tmp_path: Path) -> None:
    """Two dollar signs would make a formula, and a broken one an error."""
    name = r"$\frac{a$"
    fit: Any = SimpleNamespace(
        quantities=(1, 2, 3), means=(1.0, 2.0, 3.0), variances=(1.0, 4.0, 9.0), r2_mean=1, r2_variance=1
    )
    panel = {"title": name, "policies": {name: CURVE}}
    assert _plot_panels([panel], tmp_path / "panels.png", columns=1, title=name).exists()
    assert plot_fits({name: fit}, tmp_path / "fits.png", title=name).exists()
