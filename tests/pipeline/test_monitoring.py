"""Metrics of a build as Prometheus reads them from Ray's exporter."""

import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.factories.processes import wait_until

pytestmark = pytest.mark.large

pytest.importorskip("opencensus", reason="the exporter is not installed: pip install 'robustshards[metrics]'")

PORT = "import ray, sys; ray.init(sys.argv[1], logging_level='ERROR'); print(ray.nodes()[0]['MetricsExportPort'])"


def read(port: int) -> dict[str, dict[str, float]]:
    """Return our metrics: name -> transform, or empty -> value."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        text = page.read().decode()
    found: dict[str, dict[str, float]] = {}
    for name, labels, value in re.findall(r"^ray_robustshards_(\w+)\{(.*)\} ([\d.e+-]+)$", text, re.MULTILINE):
        parsed = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        if parsed["recipe"] == "monitored":
            found.setdefault(name, {})[parsed.get("transform", "")] = float(value)
    return found


def test_counters_match_the_build(tmp_path: Path, small_source: Path, ray_address: str, robustshards: Run) -> None:
    source = tmp_path / "class0"
    source.mkdir()
    for file in sorted((small_source / "class0").iterdir()):
        (source / file.name).write_bytes(file.read_bytes())
    (source / "damaged.png").write_bytes(b"no image")
    (tmp_path / "monitored.toml").write_text('extends = "imagenet-c"\nname = "monitored"\n')
    command = ("build", tmp_path / "monitored.toml", "--source", source, "--out", tmp_path / "data", "--workers", 2)
    done = robustshards(
        *command, "--address", ray_address, "--only", "contrast,fog", "--severities", "1,2,3", "--shard-size", 2
    )
    assert done.returncode == 1, done.stderr
    environment = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    query = [sys.executable, "-c", PORT, ray_address]
    port = int(subprocess.run(query, capture_output=True, text=True, check=True, env=environment).stdout)
    wait_until(lambda: sum(read(port).get("samples_total", {}).values()) >= 24)
    found = read(port)
    assert found["samples_total"] == {"contrast": 12, "fog": 12}
    assert found["failed_samples_total"] == {"": 6}
    payload = sum(file.stat().st_size for file in (tmp_path / "data").rglob("*.tar"))
    assert 0 < found["payload_bytes_total"][""] < payload
    assert set(found["rendering_seconds_total"]) == {"contrast", "fog"}
    assert sum(found["rendering_seconds_total"].values()) > 0
