"""Write real output into the documentation: `make readme` and `make reproduction`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from riskroute.cli.output import headline
from riskroute.experiments.comparison import demo
from riskroute.report.figures import plot_regret

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"


def between_markers(path: Path, marker: str, text: str) -> None:
    """Replace what stands between ``<!-- marker -->`` and ``<!-- /marker -->``."""
    block = f"<!-- {marker} -->\n{text}\n<!-- /{marker} -->"
    pattern = f"<!-- {marker} -->.*<!-- /{marker} -->"
    path.write_text(re.sub(pattern, lambda _: block, path.read_text(), flags=re.DOTALL))


def readme() -> None:
    """Run the demo and the study; what they print goes into README.md and the pages, the figure into docs/images."""
    result = demo()
    plot_regret(result, IMAGES / "demo.png")
    for page in (ROOT / "README.md", ROOT / "docs" / "start.md"):
        between_markers(page, "demo-table", f"```text\n{headline(result.config)}\n{result}\n```")
    with tempfile.TemporaryDirectory() as folder:
        said = _printed("-m", "riskroute", "study", "--out", folder)
    words = "\n".join(line for line in said.splitlines() if not line.startswith("wrote "))
    for page in (ROOT / "README.md", ROOT / "docs" / "study.md"):
        between_markers(page, "study", f"```text\n{words.strip()}\n```")
    printout = _printed(str(ROOT / "benchmarks" / "study.py"))
    between_markers(ROOT / "docs" / "study.md", "study-evidence", f"```text\n{printout.strip()}\n```")


def _printed(*words: str) -> str:
    """What a Python command prints."""
    return subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True, cwd=ROOT).stdout


def reproduction(folder: Path) -> None:
    """Copy what `riskroute reproduce all` wrote and said (in ``said.txt``) into docs/reproduction.md."""
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


if __name__ == "__main__":
    if sys.argv[1] == "readme":
        readme()
    else:
        reproduction(Path(sys.argv[2]))
