"""The study from Python: the same numbers as the command, results that are read again, and reports written again."""

from __future__ import annotations

import datetime as dt
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import riskroute as rr
from checkout import ROOT, run_code
from riskroute import DataError, InputError
from riskroute.cli.app import run_app as command
from riskroute.simulation.backends import Backend

VALUES: dict[str, Any] = {
    "quantities": [4],
    "risk_tolerances": [2.0, 0.0],
    "train": "10:40-10:48",
    "test": "10:48-10:56",
    "repeats": 2,
    "horizon": 50,
    "runs": 2,
    "policies": ["adaptive", "uniform"],
}
ALONE = Backend("local", 1)


def toml(values: dict[str, Any]) -> str:
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def result(folder: Path) -> rr.SplitStudyResult:
    return rr.SplitStudy(**VALUES).run(out=folder, backend=ALONE)


def test_the_command_gives_the_same_numbers_and_leaves_home_alone(
    result: rr.SplitStudyResult,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (tmp_path / "study.toml").write_text(toml(VALUES))
    words = [str(tmp_path / "study.toml"), "--out", str(tmp_path / "out"), "--workers", "1"]
    assert command(["split-study", *words, "--json", str(tmp_path / "all.json")]) == 0
    assert not list(home.iterdir())
    said = capsys.readouterr().out
    names = ("report.html", "report.md", "study.json")
    files = [*(tmp_path / "out" / name for name in names), tmp_path / "all.json"]
    assert said == f"\n{result!r}\n\n" + "".join(f"wrote {path}\n" for path in files)
    assert repr(result).startswith("Sell 4 shares by sending ")
    assert repr(result).count("\n\nSell 4 shares") == 1  # one paragraph for each risk tolerance
    for name in ("out/study.json", "all.json"):
        assert json.loads((tmp_path / name).read_text()) == result.summary()
    rewritten = rr.write_split_page(result, tmp_path / "python")
    assert [path.name for path in rewritten] == ["report.html", "report.md"]
    for path in rewritten:
        assert path.read_text() == (tmp_path / "out" / path.name).read_text()
    assert rr.SplitStudy(tmp_path / "study.toml").config == rr.SplitStudy(**VALUES).config
    assert rr.SplitStudy(tmp_path / "study.toml", quantities=6).config.quantities == (6,)


def test_a_result_is_read_as_it_was_written(result: rr.SplitStudyResult, folder: Path, tmp_path: Path) -> None:
    read = rr.SplitStudyResult.from_json(folder / "study.json")
    assert read == result
    assert repr(read) == repr(result)
    assert read.to_json(tmp_path / "again.json").read_bytes() == (folder / "study.json").read_bytes()
    for old, new in zip(
        rr.write_split_page(result, tmp_path / "a"), rr.write_split_page(read, tmp_path / "b"), strict=True
    ):
        assert old.read_bytes() == new.read_bytes()


def test_fields_are_known_by_name(result: rr.SplitStudyResult) -> None:
    first, careful = result.orders
    assert (first.quantity, first.risk_tolerance, careful.risk_tolerance) == (4, 2.0, 0.0)
    assert sum(first.recommended.allocation) == 4
    assert first.recommended is first.splits["recommended"]
    later, earlier = first.recommended.test.charged_cost, first.recommended.train.charged_cost
    assert later is not None
    assert earlier is not None
    assert first.gap == later - earlier
    assert (careful.gap, careful.gap_error, careful.recommended.test.charged_cost) == (None, None, None)
    assert first.policies["adaptive"].test.checkpoints[-1] == 50
    assert result.config.test == (dt.time(10, 48), dt.time(10, 56))


def test_without_a_folder_nothing_is_kept(result: rr.SplitStudyResult, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    study = rr.SplitStudy(**VALUES | {"risk_tolerances": 2.0})
    assert repr(study).startswith("SplitStudy(quantities=(4,), train=(datetime.time(10, 40), datetime.time(10, 48)), ")
    assert study.run(backend=ALONE).orders == result.orders[:1]
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="resume needs the folder of the earlier run as out, was None"):
        study.run(resume=True)


def test_what_is_no_study_is_refused(result: rr.SplitStudyResult, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="config must be a path, was 3"):
        rr.SplitStudy(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="backend must be one of local, dask, ray, was 'cloud'"):
        rr.SplitStudy().run(backend="cloud")
    with pytest.raises(InputError, match="result must be a SplitStudyResult, was dict"):
        rr.write_split_page(result.summary(), tmp_path)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"path must end in \.json, was 'all\.txt'"):
        result.to_json(tmp_path / "all.txt")
    with pytest.raises(InputError, match=r"path must be a readable file, was .*nowhere\.json"):
        rr.SplitStudyResult.from_json(tmp_path / "nowhere.json")
    with pytest.raises(InputError, match="orders must be a tuple of SplitResultCase"):
        replace(result, orders=[])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda plain: "{", r"study\.json must be JSON"),
        (lambda plain: "[]", r"the result of a study: the file must be an object, was \[\]"),
        (lambda plain: plain.replace('"seed": 0', '"seed": null', 1), "config.seed must be an integer, was None"),
        (lambda plain: plain.replace('"seed": 0', '"seeds": 0', 1), "unknown field 'seeds' in config"),
        (
            lambda plain: plain.replace('"config": {', '"config": {"old": 1,', 1),
            "unknown field 'old' in config; fields are data",
        ),
        (
            lambda plain: re.sub(r'"slots": \[\s+"', '"slots": [3, "', plain),
            r"orders\[0\]\.slots\[0\] must be a string, was 3",
        ),
        (
            lambda plain: plain.replace('"horizon": 50', '"horizon": true', 1),
            "config.horizon must be an integer, was True",
        ),
        (lambda plain: plain.replace('"10:40:00",', "", 1), "config.train must have 2 values, had 1"),
    ],
)
def test_a_damaged_file_is_named_with_the_place(
    folder: Path, result: rr.SplitStudyResult, tmp_path: Path, change: Any, message: str
) -> None:
    damaged = tmp_path / "study.json"
    text = json.dumps(json.loads((folder / "study.json").read_text()), indent=1)
    damaged.write_text(change(text))
    with pytest.raises(DataError, match=message) as caught:
        rr.SplitStudyResult.from_json(damaged)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("untraced")
def test_the_guide_runs_as_written(tmp_path: Path) -> None:
    (code,) = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs" / "split-study.md").read_text(), flags=re.DOTALL | re.MULTILINE
    )
    said = run_code(code, tmp_path)
    assert said.startswith("Sell 10 shares by sending ")
    assert (tmp_path / "out" / "split-study" / "report.html").exists()
