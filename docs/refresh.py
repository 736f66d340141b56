"""Write real output into the documentation: `python docs/refresh.py TASK`.

    readme | study | guide | reproduction FOLDER | closest FOLDER | benchmarks [NAME...] |
    evidence [NAME...] | reference

``make readme``, ``make reproduction``, ``make evidence``, ``make routers`` and ``make closest`` run the commands whose
output they write. After a complete ``make bench``, ``benchmarks`` copies its printouts from ``out/bench``. ``make
reference`` writes the pages of commands and configuration files from the code.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"


def between_markers(path: Path, marker: str, text: str) -> None:
    """Replace the text between ``<!-- marker -->`` and ``<!-- /marker -->``."""
    block = f"<!-- {marker} -->\n{text}\n<!-- /{marker} -->"
    pattern = f"<!-- {marker} -->.*<!-- /{marker} -->"
    text, found = re.subn(pattern, lambda _: block, path.read_text(), flags=re.DOTALL)
    if found != 1:
        sys.exit(f"{path} must have one place marked {marker}, has {found}")
    path.write_text(text)


def readme() -> None:
    """Run the demo and the studies; write their output to README.md and the pages, and the figure to docs/images."""
    with tempfile.TemporaryDirectory() as folder:
        said = _printed("-m", "riskroute", "demo", "--out", folder).replace(folder, "out/demo")
        study, _, policies = said.partition("\nThe paper's experiment")
        shutil.copy(Path(folder) / "regret.png", IMAGES / "demo.png")
    table = policies.partition("\n")[2].partition("\nbest split")[0]
    between_markers(ROOT / "README.md", "demo-study", f"```text\n{_wrapped(study)}\n```")
    for page in (ROOT / "README.md", ROOT / "docs" / "start.md"):
        between_markers(page, "demo-table", f"```text\n{table}\n```")
    with tempfile.TemporaryDirectory() as folder:
        said = _printed("-m", "riskroute", "split-study", "--out", folder)
    between_markers(ROOT / "docs" / "split-study.md", "split-study", f"```text\n{_wrapped(said)}\n```")
    study_page()
    guide()


def study_page() -> None:
    """Run the first command on the page of the study, and write its output there."""
    page = ROOT / "docs" / "study.md"
    (command,) = re.findall(r"^riskroute (study .*) --out \S+$", page.read_text(), flags=re.MULTILINE)[:1]
    with tempfile.TemporaryDirectory() as folder:
        said = _printed("-m", "riskroute", *command.split(), "--kept", folder, "--out", folder)
    between_markers(page, "study", f"```text\n{_wrapped(said)}\n```")


STARTS = ("For ", "Not enough data to tell ", "All symbols pooled: ")


def _wrapped(said: str) -> str:
    """Return a printout without its `wrote FILE` lines, with long paragraphs wrapped."""
    lines = [line for line in said.strip().splitlines() if not line.startswith("wrote ")]
    wrapped = [textwrap.fill(line, 120, break_on_hyphens=False) if line.startswith(STARTS) else line for line in lines]
    return "\n".join(wrapped).strip()


def guide() -> None:
    """Run the first command on the page of backtests, and write its output there."""
    page = ROOT / "docs" / "backtest.md"
    (command,) = re.findall(r"^riskroute (backtest .*) --out \S+$", page.read_text(), flags=re.MULTILINE)[:1]
    with tempfile.TemporaryDirectory() as folder:
        said = _printed("-m", "riskroute", *command.split(), "--kept", folder)
    between_markers(page, "backtest", f"```text\n{said.strip()}\n```")


def _printed(*words: str) -> str:
    """Return the output of a Python command."""
    return subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True, cwd=ROOT).stdout


def printouts(page: str, *names: str) -> None:
    """Copy printouts of complete runs of benchmarks to their markers in a page of docs."""
    for name in names:
        printout = ROOT / "out" / "bench" / f"{name}.txt"
        if not printout.exists():
            sys.exit(f"{printout.relative_to(ROOT)} is missing: run the whole of benchmarks/{name}.py first")
        text = printout.read_text().strip()
        between_markers(ROOT / "docs" / page, f"bench-{name}", f"```text\n{text}\n```")
        measured(ROOT / "docs" / page, text)


SETTING = re.compile(r"^(.+): [\d,]+ orders of ([\d,]+) shares, ([\d.]+) s each$")
DIFFERENCE = re.compile(r"^(\S+) +F\d .*? ([+-]?[\d.]+) +([+-]?[\d.]+) to ([+-]?[\d.]+) ")


def measured(page: Path, printout: str) -> None:
    """Write at ``<!-- measured-NAME -->`` the settings in which router NAME loses to the benchmark, or saves."""
    found: dict[str, list[tuple[str, float, float, float]]] = {}
    setting = ""
    for line in printout.splitlines():
        if named := SETTING.match(line):
            market, shares, wait = named.groups()
            setting = f"{market}, {shares} shares, {'at once' if wait == '0' else f'{wait} s'}"
        elif row := DIFFERENCE.match(line):
            name, *numbers = row.groups()
            found.setdefault(name, []).append((setting, *map(float, numbers)))
    for name, rows in found.items():
        marker = f"measured-{name.replace('+', '-')}"
        if f"<!-- {marker} -->" in page.read_text():
            between_markers(page, marker, "\n".join(textwrap.wrap(measured_words(rows), 120, break_on_hyphens=False)))


def measured_words(rows: list[tuple[str, float, float, float]]) -> str:
    """Return a sentence with the significant differences of a router and their settings, and the number of the others.

    >>> measured_words([("dark, 100 shares, at once", 0.3, 0.2, 0.4), ("paper, 100 shares, 60 s", 0.0, -0.1, 0.1)])
    'As measured: it loses 0.300 bps (dark, 100 shares, at once); no clear difference from the bar in 1 other table.'
    """
    loses = [f"{difference:.3f} bps ({setting})" for setting, difference, low, _ in rows if low > 0]
    saves = [f"{-difference:.3f} bps ({setting})" for setting, difference, _, high in rows if high < 0]
    said = [f"it {verb} {', '.join(some)}" for verb, some in (("saves", saves), ("loses", loses)) if some]
    if others := len(rows) - len(loses) - len(saves):
        word = f"{others}{' other' if said else ''} table{'' if others == 1 else 's'}"
        said.append(f"no clear difference from the bar in {word}")
    return f"As measured: {'; '.join(said)}."


def reproduction(folder: Path) -> None:
    """Copy what `riskroute reproduce all` wrote and printed (in ``said.txt``) into docs/reproduction.md."""
    page = ROOT / "docs" / "reproduction.md"
    between_markers(page, "claims", (folder / "claims.md").read_text().strip())
    said = (folder / "said.txt").read_text()
    tables = [block for block in said.split("\n\n") if "final regret" in block]
    kept = ["\n".join(line for line in block.splitlines() if not line.startswith("wrote ")) for block in tables]
    between_markers(page, "tables", "```\n" + "\n\n".join(block.strip() for block in kept) + "\n```")
    tables = [block for block in said.split("\n\n") if block.startswith("the paper's:") or "\nhere:" in f"\n{block}"]
    parameters = "\n\n".join("\n".join(line for line in block.splitlines() if "wrote " not in line) for block in tables)
    between_markers(page, "parameters", f"```\n{parameters.strip()}\n```")
    for name in ("figure1", "figure3", "figure5", "figure2", "figure4", "nonstationary", "autocorrelation"):
        shutil.copy(folder / name / f"{name}.png", IMAGES / f"{name}.png")


def closest(folder: Path) -> None:
    """Copy the output of the search for the closest setting and of `--preset closest` to their page."""
    printouts("reproduction.md", "closest")
    between_markers(ROOT / "docs" / "reproduction.md", "closest-claims", (folder / "claims.md").read_text().strip())


def reference() -> None:
    """Write the pages generated from the code."""
    from reference import cli_page, configuration_page

    (ROOT / "docs" / "cli.md").write_text(cli_page())
    (ROOT / "docs" / "configuration.md").write_text(configuration_page())


BENCHMARKS = ("design", "allocations", "runner", "reproduction", "market", "peers", "backtest", "live_log", "live")
EVIDENCE = {
    "evidence": "evidence.md",
    "against_thompson": "evidence.md",
    "slopes": "evidence.md",
    "in_reach": "evidence.md",
    "guarantee": "guarantee.md",
    "headroom": "evidence.md",
    "routers": "routers.md",
    "literature": "routers.md",
    "contextual": "contextual.md",
    "variants": "policies.md",
    "split_study": "split-study.md",
    "queues": "backtest.md",
    "verdicts": "study.md",
}

if __name__ == "__main__":
    match sys.argv[1:]:
        case ["readme"]:
            readme()
        case ["reproduction", folder]:
            reproduction(Path(folder))
        case ["closest", folder]:
            closest(Path(folder))
        case ["study"]:
            study_page()
        case ["guide"]:
            guide()
        case ["reference"]:
            reference()
        case ["benchmarks", *names]:
            printouts("benchmarks.md", *(names or BENCHMARKS))
        case ["evidence", *names]:
            for name in names or EVIDENCE:
                printouts(EVIDENCE[name], name)
        case _:
            sys.exit(__doc__)
