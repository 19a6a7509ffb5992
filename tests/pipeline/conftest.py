"""Fixtures of builds in Python."""

from collections.abc import Iterator

import pytest

from tests.factories.commands import in_this_process


@pytest.fixture(scope="module")
def workers_here() -> Iterator[None]:
    """Run the workers of the builds of a module in the process of the tests. Other modules have real workers."""
    with in_this_process():
        yield
