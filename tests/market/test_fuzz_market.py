"""A few hundred damaged files of every kind, through the same functions as the large run in the benchmarks."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from checkout import ROOT

sys.path.append(str(ROOT / "benchmarks"))
import fuzz_market
from market_files import check_recordings
from riskroute.core.errors import RiskrouteError
from riskroute.market.importing import import_files


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("kind", fuzz_market.KINDS)
def test_damaged_files_are_refused_or_read(tmp_path: Path, kind: str) -> None:
    """Both must happen, or the damage is too little or too much to tell anything."""
    # few of LOBSTER can be read, as its two files must still go together, fewer of JSON, as it must still close, and of
    # IEX, as no message may be missing
    count, least = {"lobster": (100, 5), "binance": (100, 1), "quotes": (100, 1), "iex": (100, 1)}.get(kind, (40, 5))
    outcomes = [fuzz_market.attempt(7, index, (kind,), tmp_path) for index in range(count)]
    assert set(outcomes) == {"read", "refused"}
    assert min(map(outcomes.count, ("read", "refused"))) >= least


@pytest.mark.parametrize("kind", [kind for kind in fuzz_market.KINDS if kind != "parquet"])
def test_what_is_damaged_was_valid_before(tmp_path: Path, kind: str) -> None:
    """But for Parquet, where types and values are odd from the start."""
    for seed in range(4):
        contents, packing, wanted = fuzz_market.VALID[kind](np.random.default_rng(seed))
        files = fuzz_market.PACKING[packing](contents)
        assert sum(map(len, files.values())) < 6000
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
        assert import_files([tmp_path / next(iter(files))], tmp_path / f"out{seed}", wanted)
        check_recordings(tmp_path / f"out{seed}")


def test_the_same_number_gives_the_same_input() -> None:
    for kind in fuzz_market.KINDS:
        first, second = (fuzz_market.damaged(kind, np.random.default_rng([5, 6])) for _ in range(2))
        assert first == second


def test_failures_are_counted_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import that breaks its promises is found out: another error, and something left behind."""

    def leaves(paths: list[Path], out: Path, wanted: object) -> None:
        out.mkdir()
        (out / ".left").write_text("")
        raise RiskrouteError("refused")

    def breaks(*_: object) -> None:
        raise ZeroDivisionError

    for wrong, expected in ((leaves, "a refused import left ['.left']"), (breaks, "ZeroDivisionError")):
        monkeypatch.setattr(fuzz_market, "import_files", wrong)
        with pytest.raises(AssertionError) as caught:
            fuzz_market.attempt(0, 0, ("itch",), tmp_path)
        assert expected in str(caught.value)
    fuzz_market.work(0, 0, 2, ("itch",), tmp_path)
    assert capsys.readouterr().out == "0 failed\n1 failed\n"
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["0", "1"]
