"""Provenance of results: versions of packages, the machine, and a hash of the source code."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path

from riskroute._version import __version__


def provenance_versions() -> dict[str, str]:
    """Return the versions of riskroute, Python, NumPy, SciPy and numba, on which results depend."""
    return {"riskroute": __version__, "python": platform.python_version()} | {
        name: _version_of(name) for name in ("numpy", "scipy", "numba")
    }


@cache
def _version_of(package: str) -> str:
    return version(package)


@cache
def machine_type() -> str:
    """Return operating system, architecture and processor; machines of one type round sums identically."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return " ".join(filter(None, (platform.system(), platform.machine(), next(models, platform.processor()))))


@cache
def code_hash() -> str:
    """Return a hash of the package's source code: a change of the code invalidates cached results."""
    files = sorted(Path(__file__).parents[1].rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
