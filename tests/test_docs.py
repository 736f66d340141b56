"""The documentation site: pages run as written, links lead somewhere, pictures are their script's, and it builds."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from checkout import PUBLIC, ROOT, run_code, run_command

DOCS = ROOT / "docs"
PAGES = {path.name: path.read_text() for path in sorted(DOCS.glob("*.md"))}
RUN_HERE = {
    "index.md": 0,
    "start.md": 5,
    "concepts.md": 5,
    "architecture.md": 1,
    "limitations.md": 0,
    "guarantee.md": 1,
    "own-csv.md": 4,
    "two-exchanges.md": 4,
}
"""Pages whose blocks are run below, and how many printouts of theirs are compared with what was printed."""

MARKED = re.compile(r"^<!-- ([\w-]+) -->$.*?^<!-- /\1 -->$", flags=re.DOTALL | re.MULTILINE)
"""Printouts that a command wrote."""

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


def lines_of(text: str) -> list[str]:
    """Lines that say something, without their layout and without seconds."""
    return [re.sub(r"\d+\.\d+ s\b", "some s", " ".join(line.split())) for line in text.splitlines() if line.strip()]


@pytest.mark.usefixtures("untraced", "unpainted")
@pytest.mark.parametrize("page", RUN_HERE)
def test_a_page_runs_from_top_to_bottom_and_prints_what_it_says(page: str, tmp_path: Path) -> None:
    printed, compared = "", 0
    for language, block in FENCED.findall(PAGES[page]):
        if language == "python":
            printed = run_code(block, tmp_path)
            assert printed
        elif language == "text" and printed:
            whole = lines_of(printed)
            for part in re.split(r"\n\s*\n", block):  # a table, or a paragraph, which a page may wrap
                missing = set(lines_of(part)) - set(whole)
                assert not missing or " ".join(lines_of(part)) in " ".join(whole)
            compared += 1
        elif language == "toml":
            name = re.match(r"# (\w+\.toml)\n", block)
            assert name is not None
            (tmp_path / name[1]).write_text(block)
        elif not language:
            commands = re.findall(r"^riskroute .*", block, flags=re.MULTILINE)
            printed = "".join(run_command(command, tmp_path) for command in commands)
    assert compared == RUN_HERE[page]


def test_every_page_of_the_site_is_run_somewhere_or_a_printout() -> None:
    """test_readme runs the guides; the other pages hold printouts of commands that take long."""
    elsewhere = {"backtest.md", "market.md", "policies.md", "reproduction.md"}
    printouts = {"evidence.md", "benchmarks.md", "allocations.md", "dependencies.md", "reading-the-paper.md", "api.md"}
    printouts |= {"glossary.md", "routers.md", "cli.md", "configuration.md", "real-data.md"}
    assert set(PAGES) >= set(RUN_HERE) | elsewhere
    for page in printouts & set(PAGES):
        assert "```python" not in PAGES[page]


def test_the_start_shows_the_readmes_table() -> None:
    marked = re.compile(r"<!-- demo-table -->\s*```(?:text)?\n(.*?)\n```", flags=re.DOTALL)
    tables = [marked.search(text) for text in ((ROOT / "README.md").read_text(), PAGES["start.md"])]
    assert tables[0] is not None
    assert tables[1] is not None
    assert tables[1][1] == tables[0][1]


def test_the_guide_to_the_study_gives_the_demos_answer() -> None:
    """`make readme` writes both; the demo's study is that of the guide's first command."""
    answers = [
        re.search(
            r"<!-- (?:demo-)?study -->.*?^(For orders of 1,000 shares .*?)\n(?:\n|```)", text, re.DOTALL | re.MULTILINE
        )
        for text in ((ROOT / "README.md").read_text(), PAGES["study.md"])
    ]
    assert answers[0] is not None
    assert answers[1] is not None
    opening, answer = (" ".join(found[1].split()) for found in answers if found)
    assert answer.startswith(f"{opening} ")


WRITTEN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))]


def prose(path: Path) -> str:
    """A page without printouts and code."""
    return FENCED.sub("", MARKED.sub("", path.read_text()))


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_prose_is_wrapped(path: Path) -> None:
    assert not [line for line in prose(path).splitlines() if len(line) > 120 and not line.startswith("|")]


def anchor_of(heading: str) -> str:
    """The anchor that the site gives a heading."""
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


@pytest.mark.parametrize("page", PAGES)
def test_links_and_images_lead_somewhere(page: str) -> None:
    text = FENCED.sub("", PAGES[page])
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        found = DOCS / (name or page)
        assert found.is_file(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", FENCED.sub("", found.read_text()), flags=re.MULTILINE)
            assert anchor in map(anchor_of, headings), target


def test_a_heading_becomes_an_anchor() -> None:
    assert anchor_of("What `adaptive` does") == "what-adaptive-does"
    assert anchor_of("Why linear structure helps: K and d") == "why-linear-structure-helps-k-and-d"


def test_the_navigation_has_every_page_once_in_five_groups() -> None:
    _, _, navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")
    navigation, _, _ = navigation.partition("\n\n")
    assert sorted(re.findall(r"^      - .+: (\S+\.md)$", navigation, flags=re.MULTILINE)) == sorted(PAGES)
    groups = re.findall(r"^  - (\w+):$", navigation, flags=re.MULTILINE)
    assert groups == ["Start", "Guides", "Reference", "Evidence", "Inside"]


def test_the_glossary_is_in_order_and_short() -> None:
    entries = re.findall(r"^## (.+)\n\n((?:.+\n)+)", PAGES["glossary.md"], flags=re.MULTILINE)
    words = [word.lower() for word, _ in entries]
    assert words == sorted(set(words))
    assert len(words) == PAGES["glossary.md"].count("\n## ")
    assert max(len(meaning) for _, meaning in entries) < 400


def test_the_api_page_has_every_public_name_once() -> None:
    listed = re.findall(r"^::: riskroute\.([\w.]+)$", PAGES["api.md"], flags=re.MULTILINE)
    assert sorted(listed) == sorted(PUBLIC)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    pytest.importorskip("matplotlib", reason="pictures are drawn with matplotlib")
    spec = importlib.util.spec_from_file_location("concept_pictures", DOCS / "concept_pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_concepts_show_every_picture(script: ModuleType) -> None:
    assert sorted(re.findall(r"\(images/(concept-.*?)\)", PAGES["concepts.md"])) == sorted(script.PICTURES)
    assert sorted(path.name for path in (DOCS / "images").glob("concept-*")) == sorted(script.PICTURES)


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize(
    "picture", ["concept-risk.png", pytest.param("concept-market.png", marks=pytest.mark.thorough)]
)
def test_pictures_are_what_their_script_draws(script: ModuleType, picture: str, tmp_path: Path) -> None:
    """All but one pixel in a thousand agree: one split or line that moves is several times that."""
    from matplotlib.image import imread

    said = list(script.PICTURES[picture](tmp_path / picture))
    assert said
    drawn, stored = imread(tmp_path / picture), imread(DOCS / "images" / picture)
    assert drawn.shape == stored.shape
    assert (abs(drawn - stored).max(axis=2) > 0.1).mean() < 0.001


def test_the_picture_of_exploration_tells_what_the_page_says(script: ModuleType, tmp_path: Path) -> None:
    """Which splits a policy tries may differ on another processor; that `adaptive` pays less than half does not.

    The picture of regret is not drawn again, as its runs take a quarter of a minute.
    """
    design, rise, adaptive = script.draw_exploration(tmp_path / "exploration.png")
    assert design == "design over 91 splits: plays 6, bound 6.00, rank 6"
    paid = [float(line.rpartition(" ")[2].replace(",", "")) for line in (rise, adaptive)]
    assert paid[1] < paid[0] / 2


def test_a_picture_is_drawn_the_same_twice(script: ModuleType, tmp_path: Path) -> None:
    said = [list(script.draw_risk(tmp_path / f"{k}.png")) for k in range(2)]
    assert said[0] == said[1]
    assert (tmp_path / "0.png").read_bytes() == (tmp_path / "1.png").read_bytes()
