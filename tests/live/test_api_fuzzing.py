"""Random requests, made from the OpenAPI description by schemathesis, to the real command: all of its checks hold."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from checkout import ROOT
from live_services import ServiceProcess, write_config
from riskroute.live.tokens import new_token, token_hash

# A refusal for the value of a field is 422, and 503 while trading is halted; both are described.
CHECKS = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "4xx", "503"]
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "409", "422", "503"]
"""


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["live", "shadow"])
def test_random_requests_find_no_difference_between_the_service_and_its_description(mode: str, tmp_path: Path) -> None:
    config, token = write_config(tmp_path), new_token()
    text = f'mode = "{mode}"\n{config.read_text()}'.replace("venues.A", "venues.NYSE")
    config.write_text(text + f'[tokens.all]\nhash = "{token_hash(token)}"\nscopes = ["trade", "halt"]\n')
    (tmp_path / "schemathesis.toml").write_text(CHECKS)
    service = ServiceProcess(config)
    try:
        service.said(f"{mode} on")
        address = f"http://{service.listen}"
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(tmp_path / "schemathesis.toml")]
        command += ["run", f"{address}/openapi.json", "--checks", "all", "--max-examples", "60", "--seed", "1"]
        command += ["--exclude-path", "/events", "--no-color", "--continue-on-failure"]  # a stream has no end
        command += ["--header", f"Authorization: Bearer {token}"]
        paths = os.pathsep.join([str(ROOT / "tests" / "support"), str(ROOT / "src")])
        hooks = {"SCHEMATHESIS_HOOKS": "fuzzing_hooks", "FUZZED_ADDRESS": address, "FUZZED_TOKEN": token}
        done = subprocess.run(
            command,
            env=os.environ | hooks | {"PYTHONPATH": paths},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert int(re.findall(r"(\d+) generated, \1 passed", done.stdout)[0]) > 500, done.stdout
        state = service.http.get("/state").json()
        assert state["orders" if mode == "live" else "settled"] >= 1, "an order was accepted"
    finally:
        said = service.end()
    assert "Traceback" not in said, said
