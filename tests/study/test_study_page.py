"""The page of a study: every number is one of the result, every text is escaped, and it reads on a phone."""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pages import as_phone, known_numbers, opened, unknown_numbers
from riskroute.core.errors import InputError
from riskroute.core.validation import LONGEST_VENUE
from riskroute.study.page import _LIMITATIONS, Page, _frontier_section, _study_page, write_study_page
from riskroute.study.result import StudyResult
from riskroute.study.svg import _WIDTH, ChartCurve, ChartDot, _Scale, bar_chart, curve_chart, dot_chart

HOSTILE = "</title><script>alert(1)</script>\"'&lt;<!--"
SCREENS = (360, 1280)


class Words(HTMLParser):
    """Tags of a page, and its texts but for styles, settings and the ticks of axes."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.texts: list[str] = []
        self._left_out = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._left_out = tag in ("style", "pre") or ("class", "tick") in attrs

    def handle_endtag(self, tag: str) -> None:
        self._left_out = False

    def handle_data(self, data: str) -> None:
        if not self._left_out:
            self.texts.append(data)


@pytest.fixture(scope="module")
def content(study_result: StudyResult) -> Page:
    return _study_page(study_result)


@pytest.fixture(scope="module")
def page(content: Page, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return content.write(tmp_path_factory.mktemp("page") / "study.html")


def test_the_page_is_one_small_file_that_asks_for_nothing(page: Path) -> None:
    assert page.name == "study.html"
    assert [path.name for path in page.parent.iterdir()] == ["study.html"]
    text = page.read_text()
    assert page.stat().st_size < 200_000
    assert not re.search(r"https?:|url\(|@import|<script|<link|<img|src=|href=", text)


def test_every_section_is_there(page: Path, content: Page, study_result: StudyResult) -> None:
    (part,) = content.parts
    assert [section.title for section in part.sections] == [
        *(
            "Cost by router",
            "Risk frontier",
            "Cost by hour of the day",
            "Where it saves and where it loses",
            "Venues and dark pools",
        ),
        *("Learning curve", "Example: a typical order", "Example: the best order", "Example: the worst order"),
        *("Sensitivity to dark-pool assumptions", "Stress tests", "Routing table"),
    ]
    text = " ".join(Words(page.read_text()).texts)
    assert " ".join((part.headline, part.answer, *part.points)) == study_result.answer
    for words in (
        part.headline,
        part.answer,
        *part.points,
        *_LIMITATIONS,
        "Days played: LUMO 2019-03-04",
        "Reproduction",
    ):
        assert words in text
    program = (
        "rr.Study(quantities=(2500,), horizons=(10.0,), risk='cheapest', routers=('static', 'contextual'), orders=12, "
        "seeds=1, "
    )
    assert f"{program}block_minutes=1.0, surface_orders=12, stresses=True).run(" in content.program
    assert json.loads(content.settings) == study_result.to_json()["config"]
    facts = dict(part.facts)
    assert facts["router to use"] == "not enough data to tell"
    assert {"saving per order", "95 % CI", "saving per 1,000 orders", "p-value"} < set(facts)


def charts_of(content: Page) -> list[Any]:
    return [chart for part in content.parts for section in part.sections for chart in section.charts]


def garbled(value: Any, rng: random.Random) -> Any:
    """Plain values in which every number is another one, large and with many digits, so that few are met by chance."""
    if isinstance(value, dict):
        return {key: garbled(item, rng) for key, item in value.items()}
    if isinstance(value, list):
        return [garbled(item, rng) for item in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return rng.randrange(10**4, 10**6) if isinstance(value, int) else round(rng.uniform(1e4, 1e6), 4)


def without_constants(text: str, result: StudyResult) -> str:
    """The text of a page without numbers that are words: seconds of markouts, dates, times and versions."""
    for known in (*result.versions.values(), *(one.time for case in result.cases for one in case.examples)):
        text = text.replace(known, "")
    plain = re.sub(r"\d{4}-\d\d-\d\d", "", text)
    plain = re.sub(r"30 independent|8 (test )?days|0\.05 x variance", "", plain)  # as many as a verdict needs
    return re.sub(r"1, 10 and 60 seconds|(markout|adverse)\s10? s|markout\s60 s|shortfall 5 %", "", plain)


@pytest.mark.parametrize("seed", [1, 2])
def test_every_number_on_the_page_is_one_of_the_json(seed: int, study_result: StudyResult, tmp_path: Path) -> None:
    """With all numbers of the result garbled, those on the page are the garbled ones: nothing is worked out on the way.

    A number of such a size that is not among them would be met by chance one time in a hundred if it is a whole one,
    and hardly ever if it has digits.
    """
    plain = study_result.to_json()
    result = StudyResult.from_json(plain | {"cases": garbled(plain["cases"], random.Random(seed))})
    page = write_study_page(result, tmp_path).read_text()
    text = without_constants("\n".join(Words(page).texts), result)
    known = list(known_numbers(result.to_json()))
    assert unknown_numbers(text, known) == []
    assert unknown_numbers(f"{text} saved 712,345.678 bps", known) == ["712345.678"]
    assert len(re.findall(r"\d+\.\d+", text)) > 300


def test_the_numbers_of_the_usual_page_are_known_too(page: Path, study_result: StudyResult) -> None:
    text = without_constants("\n".join(Words(page.read_text()).texts), study_result)
    assert unknown_numbers(text, list(known_numbers(study_result.to_json()))) == []


def test_every_text_is_escaped(page: Path, study_result: StudyResult, tmp_path: Path) -> None:
    """Routers, venues and symbols with hostile names give the same elements as others."""
    plain = study_result.to_json()
    cases = json.dumps(plain["cases"])
    for name in ("contextual", "rest-even+sweep", "XNAS", "POOL1"):
        cases = cases.replace(json.dumps(name), json.dumps(name + HOSTILE))
    days = [f"{HOSTILE} 2019-03-04"]
    result = StudyResult.from_json(plain | {"cases": json.loads(cases), "days": days})
    found = Words(write_study_page(result, tmp_path, command=HOSTILE).read_text())
    tags = Words(page.read_text()).tags
    assert {tag: found.tags.count(tag) for tag in set(found.tags)} == {
        tag: tags.count(tag) + (tag in ("p", "pre"))
        for tag in set(tags)  # those of the command
    }
    assert sum(HOSTILE in text for text in found.texts) > 50


def test_a_study_without_a_router_to_compare_has_a_page_too(study_result: StudyResult, tmp_path: Path) -> None:
    (case,) = study_result.cases
    rule = dataclasses.replace(
        case, chosen="sweep", use="sweep", reason="nothing better", saving=None, learning=None, states=(), losses=()
    )
    bare = dataclasses.replace(
        rule, frontier=None, surface=None, learning_curve=None, stresses=None, examples=(), routing_table=()
    )
    result = dataclasses.replace(study_result, cases=(rule, bare), pools=())
    content = _study_page(result)
    assert content.summary is not None
    assert len(content.summary[1].rows) == 2
    assert "saving per order" not in dict(content.parts[0].facts)
    titles = [section.title for section in content.parts[1].sections]
    assert titles == ["Cost by router", "Cost by hour of the day", "Venues and dark pools"]
    assert content.write(tmp_path / "study.html").exists()


def test_every_symbol_has_a_part_of_its_own_and_all_together_the_last(study_result: StudyResult) -> None:
    (case,) = study_result.cases
    both = [dataclasses.replace(case, symbol=name) for name in ("LUMO", "TWIN", "")]
    content = _study_page(
        dataclasses.replace(study_result, cases=tuple(both), days=("LUMO 2019-03-04", "TWIN 2019-03-04"))
    )
    assert content.title == "Which router to use for LUMO, TWIN (synthetic)"
    assert content.subtitle == (
        "Market dark (synthetic), protection reg-nms, risk profile cheapest, 2019-03-04: buy and sell orders in turn. "
        "Synthetic days: generated, not recorded."
    )
    names = ["LUMO", "TWIN", "All symbols"]
    assert [part.title for part in content.parts] == [f"{name}, 2,500 shares, 10 seconds" for name in names]
    assert content.parts[2].headline.startswith("All symbols pooled: not enough data to tell")
    assert content.summary is not None
    assert [row[0] for row in content.summary[1].rows] == ["LUMO", "TWIN", "all"]


def test_a_page_of_many_cases_stays_below_two_megabytes(study_result: StudyResult, tmp_path: Path) -> None:
    content = _study_page(dataclasses.replace(study_result, cases=study_result.cases * 30))
    assert content.write(tmp_path / "study.html").stat().st_size < 2_000_000
    assert content.parts[11] == content.parts[0]
    titles = [section.title for section in content.parts[12].sections]
    assert titles == [
        "Cost by router",
        "Risk frontier",
        "Where it saves and where it loses",
        "Stress tests",
        "Routing table",
    ]
    assert content.parts[12].answer == content.parts[0].answer
    assert content.parts[12].points == content.parts[0].points


def test_the_command_is_shown_if_there_was_one(study_result: StudyResult, tmp_path: Path) -> None:
    command = "riskroute study --market dark --shares '<2500>'"
    text = write_study_page(study_result, tmp_path, command=command).read_text()
    assert "<pre>riskroute study --market dark --shares &#39;&lt;2500&gt;&#39;</pre>" in text


def test_a_page_is_made_of_a_result(study_result: StudyResult, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="result must be a StudyResult, was Page"):
        write_study_page(_study_page(study_result), tmp_path)  # type: ignore[arg-type]


def places_of(svg: str) -> tuple[list[float], list[tuple[float, str]]]:
    """Places of the dots of a drawing, and of its ticks with what they say."""
    dots = [float(x) for x in re.findall(r'<circle cx="([-\d.]+)"', svg)]
    ticks = re.findall(r'<text x="([-\d.]+)"[^>]*class="tick">([^<]*)<', svg)
    return dots, [(float(x), text) for x, text in ticks]


def test_dots_stand_where_the_axis_says() -> None:
    values = (-2.375, 0.219, 1.632)
    dots, ticks = places_of(dot_chart("t", "bps", [ChartDot(f"{one}", one) for one in values]))
    (x1, low), (x2, high) = ticks[0], ticks[-1]
    per_unit = (x2 - x1) / (float(high) - float(low))
    assert [(x - x1) / per_unit + float(low) for x in dots] == pytest.approx(values, abs=0.01)


def test_points_of_curves_stand_where_the_axes_say() -> None:
    curve = ChartCurve("one", (0.0, 50.0, 200.0), (-1.0, 3.0, 0.5), role="chosen")
    svg = curve_chart("t", "orders", "bps", [curve], edge=(50.0, "here"))
    dots, ticks = places_of(svg)
    (x1, low), (x2, high) = (pair for pair in ticks if pair[1] in ("0", "200") and pair[0] > 42)
    at = [(x - x1) / (x2 - x1) * (float(high) - float(low)) for x in dots]
    assert at == pytest.approx((0.0, 50.0, 200.0), abs=0.1)
    assert f'<line x1="{dots[1]:.1f}"' in svg


def test_a_logarithmic_axis_shows_five_decades() -> None:
    curve = ChartCurve("one", (1.0, 2.0, 3.0), (1e-9, 1e3, 1e6), role="chosen")
    svg = curve_chart("t", "orders", "regret", [curve], log=True)
    heights = [float(y) for y in re.findall(r'<circle cx="[-\d.]+" cy="([-\d.]+)"', svg)]
    assert heights[0] - heights[2] == pytest.approx(5 / 3 * (heights[1] - heights[2]), rel=0.01)
    assert ">1e+06<" in svg


def test_bars_are_as_long_as_their_values() -> None:
    svg = bar_chart("t", "shares", ["A", "B"], {"one": [4, 2], "other": [0, 1]})
    wide = [float(x) for x in re.findall(r'width="([\d.]+)" height="9.0"', svg)]
    assert [x / wide[0] for x in wide] == pytest.approx([1, 0, 0.5, 0.25], abs=0.01)


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0.0], (0.0, 0.2)),
        ([3.0, 3.0], (3.0, 4.0)),
        ([-0.004, 0.011], (-0.005, 0.0, 0.005, 0.01, 0.015)),
        ([0.0, 1e7], (0.0, 2e6, 4e6, 6e6, 8e6, 1e7)),
    ],
)
def test_axes_have_round_ticks_around_all_values(values: list[float], ticks: tuple[float, ...]) -> None:
    scale = _Scale(values, 10, 330)
    assert scale.ticks == pytest.approx(ticks)
    assert all(10 - 1e-9 <= scale(value) <= 330 + 1e-9 for value in values)


@pytest.fixture(scope="module")
def browser(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The page in a browser."""
    with opened(page, tmp_path_factory.mktemp("profile")) as driver:
        yield driver


def with_long_names(result: StudyResult) -> StudyResult:
    """The same study of a router with parameters in its name, at venues with names as long as they may be."""
    plain = result.to_json()
    names = {"contextual": "contextual:half_life=20,budget=0.25,sample=true", "XNAS": "N" * LONGEST_VENUE}
    cases = json.dumps(plain["cases"])
    for short, long in names.items():
        cases = cases.replace(f'"{short}"', f'"{long}"')
    return StudyResult.from_json(plain | {"cases": json.loads(cases)})


OUTSIDE = """
const found = [];
for (const svg of document.querySelectorAll('svg')) {
  const box = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll('text')].map(one => [one.textContent, one.getBoundingClientRect()]);
  for (const [words, one] of texts)
    if (one.left < box.left - 1 || one.right > box.right + 1 || one.top < box.top - 1 || one.bottom > box.bottom + 1)
      found.push('outside: ' + words);
  texts.forEach(([words, one], k) => texts.slice(k + 1).forEach(([others, other]) => {
    const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
    const high = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
    if (wide > 1 && high > 4) found.push('over each other: ' + words + ' | ' + others);
  }));
}
return found;
"""


@pytest.mark.usefixtures("untraced")
def test_the_page_is_drawn_without_errors_and_without_asking_for_anything(browser: Any, content: Page) -> None:
    assert not browser.get_log("browser")
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    sizes = browser.execute_script(
        "return [...document.querySelectorAll('.chart svg')].map(c => [c.clientWidth, c.clientHeight])"
    )
    assert len(sizes) == len(charts_of(content))
    assert all(300 < wide < 450 and high > 100 for wide, high in sizes)
    assert browser.execute_script(OUTSIDE) == []


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("width", [360, 390])
def test_the_page_reads_on_a_phone(browser: Any, width: int) -> None:
    with as_phone(browser, width):
        wide, inner = browser.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
        assert inner == width
        assert wide <= inner
        sizes = browser.execute_script(
            "return [...document.querySelectorAll('p, td, th, li')].map(e => parseFloat(getComputedStyle(e).fontSize))"
        )
        assert min(sizes) >= 13
        letters = browser.execute_script(
            "return [...document.querySelectorAll('svg text')].map(e => parseFloat(e.getAttribute('font-size')) * "
            f"e.ownerSVGElement.clientWidth / {_WIDTH})"
        )
        assert min(letters) > 10
        assert browser.execute_script(OUTSIDE) == []


@pytest.mark.usefixtures("untraced")
def test_long_names_do_not_burst_the_page(browser: Any, page: Path, study_result: StudyResult, tmp_path: Path) -> None:
    browser.get(write_study_page(with_long_names(study_result), tmp_path).as_uri())
    try:
        assert "contextual:half_life=20,budget=0.25,sample=true" in browser.find_element("css selector", ".facts").text
        with as_phone(browser, 360):
            assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
            assert browser.execute_script(OUTSIDE) == []
    finally:
        browser.get(page.as_uri())


@pytest.mark.usefixtures("untraced")
def test_the_page_fits_on_paper(browser: Any) -> None:
    """On A4 less its margins, nothing is cut off, and tables are whole."""
    paper = {"width": 703, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", paper)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        wide = browser.execute_script("return document.documentElement.scrollWidth")
        cut = browser.execute_script(
            "return [...document.querySelectorAll('.wide')]"
            ".filter(one => getComputedStyle(one).overflowX != 'visible').length"
        )
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert (wide <= 703, cut) == (True, 0)


def test_the_frontier_leaves_out_what_would_squeeze_it(study_result: StudyResult) -> None:
    """A router that costs far more than the line, the rule and the efficient routers is named instead of drawn."""
    (case,) = study_result.cases
    assert case.frontier is not None
    assert case.frontier.line
    points = case.frontier.points
    costs = [one.cost_bps for one in points if one.risk or one.efficient or one.router == case.comparison.bar]
    ends = 2 * max(costs) - min(costs)
    far = dataclasses.replace(points[-1], router="far", risk="", efficient=False, cost_bps=ends + 0.01)
    near = dataclasses.replace(far, router="near", cost_bps=ends - 0.01)
    kept = tuple(one for one in points if one.cost_bps <= ends)
    frontier = dataclasses.replace(case.frontier, points=(*kept, near, far))
    section = _frontier_section(case, frontier, study_result.config.risk)
    assert section.texts[0].endswith(f"Beyond the chart: far ({far.cost_bps:.2f} bps).")
    assert "far: expected cost" not in section.charts[0][1]
    assert "near: expected cost" in section.charts[0][1]
    assert [row[0] for row in section.tables[0][1].rows[-2:]] == ["near", "far"]
    assert (
        "Beyond"
        not in _frontier_section(case, dataclasses.replace(frontier, points=kept), study_result.config.risk).texts[0]
    )
