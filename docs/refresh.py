"""Write real output into the documentation: `make readme` and `make reproduction`."""

from __future__ import annotations

import re
import shutil
import sys
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
    """Run the demo once; its table goes into README.md, its figure into docs/images."""
    result = demo()
    plot_regret(result, IMAGES / "demo.png")
    between_markers(ROOT / "README.md", "demo-table", f"```\n{headline(result.config)}\n{result}\n```")


def reproduction(folder: Path) -> None:
    """Copy what `riskroute reproduce all` wrote and said (in ``said.txt``) into docs/reproduction.md."""
    page = ROOT / "docs" / "reproduction.md"
    between_markers(page, "claims", (folder / "claims.md").read_text().strip())
    said = (folder / "said.txt").read_text()
    tables = [block for block in said.split("\n\n") if "final regret" in block]
    kept = ["\n".join(line for line in block.splitlines() if not line.startswith("wrote ")) for block in tables]
    between_markers(page, "tables", "```\n" + "\n\n".join(block.strip() for block in kept) + "\n```")
    for name in ("figure2", "figure4", "nonstationary", "autocorrelation"):
        shutil.copy(folder / name / f"{name}.png", IMAGES / f"{name}.png")


if __name__ == "__main__":
    if sys.argv[1] == "readme":
        readme()
    else:
        reproduction(Path(sys.argv[2]))
