"""The site of the documentation, built as `make docs` does."""

from __future__ import annotations

import html
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from checkout import PUBLIC, ROOT

pytestmark = pytest.mark.thorough  # it takes ten seconds to build; tests/test_docs.py reads the pages it is made of

ENVIRONMENT = os.environ | {"NO_MKDOCS_2_WARNING": "1"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for library in ("mkdocs", "material", "mkdocstrings", "mkdocstrings_handlers.python"):
        if importlib.util.find_spec(library.partition(".")[0]) is None:
            pytest.skip(f"the site needs {library}: pip install 'riskroute[docs]'")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=ENVIRONMENT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_the_site_is_whole(site: Path) -> None:
    assert {path.stem for path in site.glob("*.html")} == {path.stem for path in (ROOT / "docs").glob("*.md")} | {"404"}
    assert (site / "fees.toml").is_file()
    assert (site / "search" / "search_index.json").is_file()
    assert not list(site.rglob("*.py"))


def test_the_site_fetches_nothing_from_elsewhere(site: Path) -> None:
    for page in site.glob("*.html"):
        text = page.read_text()
        tags = re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", text)
        assert tags
        assert not [tag for tag in tags if re.search(r"(?:src|href)=\"?(?:https?:)?//", tag)]


def test_the_api_page_shows_every_name_with_its_docstring(site: Path) -> None:
    text = (site / "api.html").read_text()
    for name in PUBLIC:
        assert f'id="riskroute.{name}"' in text
    words = " ".join(html.unescape(re.sub(r"<[^>]+>", "", text)).split())
    assert (
        "Risk-aware explore-then-commit (RISE). Parameters: Name Type Description Default mode str practical" in words
    )
    assert "as the paper's theorem requires." in words
    assert ">>> rise.plan().counts.tolist() [100, 100]" in words
    assert "The horizon determines when exploration no longer pays." in words
    assert "memory(None" not in words  # what a policy learns is no parameter
    assert "parameter(" not in words  # the default alone is shown
    assert "<blockquote>" not in text  # what an example becomes if taken for Markdown
