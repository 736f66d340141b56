"""Run a sweep on a dask cluster: every combination of order sizes and risk tolerances, on several instances.

Shows how to describe a sweep as plain values, how to run it on two dask workers (or, with an address, on any running
cluster), and how to read its tidy table. The numbers do not depend on the backend.

    python examples/sweep_on_dask.py [FOLDER]      # keeps the files in FOLDER
"""

import sys
import tempfile
from pathlib import Path

import polars

from riskroute.simulation.backends import Backend
from riskroute.simulation.sweep import SweepConfig, sweep

STUDY = {
    "slots": 4,
    "shares": [4, 8],
    "risk_tolerances": [1.0, 4.0],
    "horizons": 1_000,
    "instances": 2,
    "policies": ["adaptive", "rise", "uniform"],
    "runs": 2,
}


def main(folder: Path) -> None:
    """Run the sweep and print its table."""
    config = SweepConfig.of(STUDY)
    backend = Backend("dask", workers=2)  # Backend("dask", address="tcp://...:8786") for a running cluster
    swept = sweep(config, folder, backend, resume=True)  # continues an interrupted sweep
    table = polars.read_parquet(folder / "sweep.parquet")
    print(f"{config.all_runs} runs on dask; files: {', '.join(path.name for path in swept.files)}")
    standings = (
        table.group_by("shares", "risk_tolerance", "policy")
        .agg(polars.col("regret").mean().round(0).alias("mean regret"), polars.len().alias("runs"))
        .sort("shares", "risk_tolerance", "mean regret")
    )
    with polars.Config(tbl_rows=-1, tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True):
        print(standings)


if __name__ == "__main__":  # dask's workers import this file
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
