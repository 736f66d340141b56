"""Count files, lines, public names and constants of the source by room: ``python tests/support/count_code.py``."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

COLUMNS = ("files", "lines", "public", "constants")


def count_rooms(source: Path) -> dict[str, Counter[str]]:
    """Return the counts of every room below ``source``; top-level modules are the room ``.``."""
    rooms: dict[str, Counter[str]] = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).parts
        rooms.setdefault(parts[0] if len(parts) > 1 else ".", Counter()).update(count_module(path.read_text()))
    return rooms


def count_module(text: str) -> Counter[str]:
    """Return the counts of one module.

    Public names are functions and classes at module level without a leading underscore. Constants are ALL-CAPS names
    assigned at module level, private ones too.
    """
    counts = Counter(files=1, lines=text.count("\n"))
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            counts["public"] += not node.name.startswith("_")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [
                part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])
            ]
            counts["constants"] += sum(isinstance(one, ast.Name) and one.id.strip("_").isupper() for one in names)
    return counts


def main() -> None:
    """Print a table of all rooms and the total."""
    rooms = count_rooms(Path(__file__).parents[2] / "src" / "riskroute")
    lines: list[tuple[str, ...]] = [("room", *COLUMNS)]
    for name, counts in [*rooms.items(), ("total", sum(rooms.values(), Counter()))]:
        lines.append((name, *(str(counts[column]) for column in COLUMNS)))
    for name, *cells in lines:
        sys.stdout.write(f"{name:<12}" + "".join(f"{cell:>11}" for cell in cells) + "\n")


if __name__ == "__main__":
    main()
