"""The comparison of whole data sets before and after a change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.golden import builds


def test_the_same_build_is_equal_and_a_changed_one_is_named(
    small_source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "digests.json"
    command = ["--source", str(small_source), "--limit", "1", "--only", "tiny-imagenet-c-clean"]
    assert builds.main([*command, "--record", str(record)]) == 0
    assert builds.main([*command, "--against", str(record)]) == 0
    assert "4 files, 0 differences" in capsys.readouterr().out
    known = json.loads(record.read_text())
    shard, part = (next(path for path in known if path.endswith(end)) for end in (".tar", "-000000.parquet"))
    record.write_text(
        json.dumps({**known, shard: "0", part: "0", "tiny-imagenet-c-clean/gone": "0", "imagenet-s/a": "0"})
    )
    assert builds.main([*command, "--against", str(record), "--without-parts"]) == 1
    told = capsys.readouterr().out
    assert f"{shard} has other bytes" in told
    assert "tiny-imagenet-c-clean/gone is missing" in told
    assert "imagenet-s" not in told  # left out by --only
    assert part not in told
