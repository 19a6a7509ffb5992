"""A watcher that shows nothing."""

from __future__ import annotations

from typing import Any


class Silent:
    """Watches a build or an evaluation, and shows nothing of it."""

    def _ignore(self, *args: Any, **kwargs: Any) -> None:
        """Show nothing."""

    preparing = started = reported = on_event = counting = advanced = _ignore
