"""Print functions and classes drawn at random, to test whether their names reveal their files.

python tests/support/drawn_functions.py          # names only, and all files to choose from
python tests/support/drawn_functions.py --told   # with their files
"""

from __future__ import annotations

import ast
import random
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SEED, COUNT = 2026, 25


def public_definitions() -> list[tuple[str, str]]:
    """Names and files of all functions and classes at the top of a module that do not begin with an underscore."""
    package = ROOT / "src" / "riskroute"
    return [
        (node.name, path.relative_to(package).as_posix())
        for path in sorted(package.rglob("*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    ]


def main() -> None:
    """Print them."""
    definitions = public_definitions()
    drawn = random.Random(SEED).sample(definitions, COUNT)
    if "--told" not in sys.argv[1:]:
        print("\n".join(sorted({file for _, file in definitions})), end="\n\n")
    for name, file in drawn:
        print(f"{name:30} {file}" if "--told" in sys.argv[1:] else name)


if __name__ == "__main__":
    main()
