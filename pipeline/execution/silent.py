"""A watcher that prints nothing."""

from __future__ import annotations

from typing import Any


class SilentWatcher:
    """A watcher of a build or an evaluation that ignores all events."""

    def _ignore(self, *args: Any, **kwargs: Any) -> None:
        """Ignore an event."""

    preparing = started = reported = on_event = counting = advanced = _ignore
