"""Comparison of complete data sets before and after a change."""

import json
from pathlib import Path

import pytest

from tests.golden import builds


def test_compare_accepts_the_same_build_and_names_changed_files(
    small_source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "digests.json"
    command = ["--source", str(small_source), "--limit", "1", "--only", "tiny-imagenet-c-clean"]
    assert builds.main([*command, "--record", str(record)]) == 0
    assert builds.main([*command, "--against", str(record)]) == 0
    assert "4 files, 0 differences" in capsys.readouterr().out
    recorded = json.loads(record.read_text())
    shard, part = (next(path for path in recorded if path.endswith(end)) for end in (".tar", "-000000.parquet"))
    record.write_text(
        json.dumps({**recorded, shard: "0", part: "0", "tiny-imagenet-c-clean/gone": "0", "imagenet-s/a": "0"})
    )
    assert builds.main([*command, "--against", str(record), "--without-parts"]) == 1
    output = capsys.readouterr().out
    assert f"{shard} has different bytes" in output
    assert "tiny-imagenet-c-clean/gone is missing" in output
    assert "imagenet-s" not in output  # excluded by --only
    assert part not in output
