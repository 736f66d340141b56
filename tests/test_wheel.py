"""The wheel and the sdist: they build, install into an empty environment and run there, without a network."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import riskroute
from checkout import ROOT

ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("building needs hatchling: pip install 'riskroute[dev]'")
    folder = tmp_path_factory.mktemp("dist")
    _run(ROOT, sys.executable, "-m", "hatchling", "build", "--directory", str(folder))
    return folder


def _run(folder: Path, *words: str, **variables: str) -> str:
    """What a command prints, in a folder and with nothing of this checkout on the path."""
    done = subprocess.run(
        words, capture_output=True, text=True, cwd=folder, env=ENVIRONMENT | variables, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _installed(file: Path, folder: Path) -> Path:
    """Install a file into a new environment that sees the libraries of the running one, but not its riskroute.

    Paths in a .pth file are looked at after the environment's own, and .pth files found there do not count: so an
    editable riskroute of the running environment stays out of sight.
    """
    venv.create(folder, with_pip=False)
    (own,) = folder.glob("lib/python*/site-packages")
    libraries = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (own / "libraries.pth").write_text("\n".join(libraries))
    # Installed riskroutes are ignored, so that pip does not think of removing that of the running environment.
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed", "--disable-pip-version-check"]
    options.append("--no-compile")  # what runs is compiled when it does
    _run(folder, str(folder / "bin" / "python"), "-m", "pip", "install", *options, str(file))
    assert (own / "riskroute" / "__init__.py").is_file()
    return folder / "bin"


def test_the_wheel_holds_the_package_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    about = f"riskroute-{riskroute.__version__}.dist-info"
    assert {name.partition("/")[0] for name in names} == {"riskroute", about}
    sources = {f"riskroute/{path.relative_to(ROOT / 'src' / 'riskroute')}" for path in (ROOT / "src").rglob("*.py")}
    assert sources | {"riskroute/py.typed"} <= set(names)
    assert f"{about}/licenses/LICENSE" in names


def test_the_sdist_holds_what_the_tests_need(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    for name in ("pyproject.toml", "Makefile", "constraints.txt", "mkdocs.yml", "README.md", "CITATION.cff"):
        assert name in names
    for folder in ("src/riskroute", "tests/support", "docs/images", "examples", "benchmarks"):
        assert any(name.startswith(f"{folder}/") for name in names)
    assert not [name for name in names if "__pycache__" in name or name.startswith(("out/", ".cache/", ".venv/"))]


@pytest.mark.thorough
def test_the_wheel_runs_where_it_is_installed(built: Path, tmp_path: Path) -> None:
    """Kernels are not compiled, which would take most of a minute; that they give the same is tested elsewhere."""
    (wheel,) = built.glob("*.whl")
    command = str(_installed(wheel, tmp_path / "environment") / "riskroute")
    assert "Show a router study" in " ".join(_run(tmp_path, command, "demo", "--help").split())
    words = "simulate --slots 2 --shares 2 --policy uniform --policy rise --horizon 50 --runs 2 --json result.json"
    home = tmp_path / "home"
    home.mkdir()
    printed = _run(tmp_path, command, *words.split(), NUMBA_DISABLE_JIT="1", HOME=str(home))
    assert "2 shares over 2 slots: 3 splits, 50 rounds, 2 runs" in printed
    assert json.loads((tmp_path / "result.json").read_text())["config"]["horizon"] == 50
    assert not list(home.iterdir()), "a command leaves nothing in the home folder"


@pytest.mark.thorough  # what it holds is tested above
def test_the_sdist_installs(built: Path, tmp_path: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    command = _installed(sdist, tmp_path / "environment") / "riskroute"
    assert _run(tmp_path, str(command), "--version").strip() == f"riskroute {riskroute.__version__}"
