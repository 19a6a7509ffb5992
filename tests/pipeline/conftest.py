"""Fixtures of builds in Python."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.storage import trusted_locations
from tests.factories.commands import in_this_process


@pytest.fixture(scope="module")
def workers_here() -> Iterator[None]:
    """Run the workers of the builds of a module in the process of the tests. Other modules have real workers."""
    with in_this_process():
        yield


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Store the recorded sources in the folder of the test instead of the user's cache."""
    monkeypatch.setattr(trusted_locations, "user_cache", lambda: tmp_path / "cache")
