"""Write the demo's real output into README.md, and its figure into docs/images (`make readme`)."""

from __future__ import annotations

import re
from pathlib import Path

from riskroute.cli.output import headline
from riskroute.experiments.comparison import demo
from riskroute.report.figures import plot_regret

ROOT = Path(__file__).parent.parent


def main() -> None:
    """Run the demo once and replace what stands between the markers."""
    result = demo()
    plot_regret(result, ROOT / "docs" / "images" / "demo.png")
    readme = ROOT / "README.md"
    block = f"<!-- demo-table -->\n```\n{headline(result.config)}\n{result}\n```\n<!-- /demo-table -->"
    text = re.sub(r"<!-- demo-table -->.*<!-- /demo-table -->", lambda _: block, readme.read_text(), flags=re.DOTALL)
    readme.write_text(text)


if __name__ == "__main__":
    main()
