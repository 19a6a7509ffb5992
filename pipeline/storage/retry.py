"""Retry network calls with exponential backoff."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import tenacity

from pipeline.errors import UnreachableError, UserError

ATTEMPTS = 8
LEAST_ATTEMPTS, LONGEST_S = 3, 30.0
"""A library may wait long in each attempt: after so many seconds, only the first three attempts are made."""

FIRST_WAIT_S, LONGEST_WAIT_S = 0.25, 8.0
"""Waits double from attempt to attempt; each is shortened at random by up to half, to spread the calls of workers."""

_FINAL = (
    *(FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError),
    *(TypeError, UserError),
)
"""Answers, not failures: asking again would bring the same."""

_WITHOUT_CREDENTIALS = frozenset({"NoCredentialsError", "PartialCredentialsError", "TokenRetrievalError"})
"""Of botocore, which need not be installed."""

Result = TypeVar("Result")


def patiently(what: str, call: Callable[..., Result], *arguments: Any) -> Result:
    """Return the result of a call, after up to eight attempts within about half a minute.

    Args:
        what: What the call does, as the message continues after "cannot".
        call: The call to make.
        arguments: Its arguments.

    Raises:
        UnreachableError: No attempt succeeds, or the credentials do not suffice.
        UserError: There are no credentials.
        OSError: The store's answer, for example that there is no such file; at once.
    """
    try:
        return _RETRYING(call, *arguments)
    except tenacity.RetryError as error:
        failure, count = error.last_attempt.exception(), error.last_attempt.attempt_number
        tried = f"cannot {what}, tried {count} times"
        raise UnreachableError(f"{tried}: {type(failure).__name__}: {failure}") from failure
    except PermissionError as error:  # mostly a token that has run out: nothing that one sample is to blame for
        raise UnreachableError(f"cannot {what}: not allowed ({error}); are the credentials still valid?") from error
    except Exception as error:
        if not _lacks_credentials(error):
            raise
        raise UserError(
            f"cannot {what}: no credentials were found; give them as the provider's own tools take them "
            "(environment, configuration file, role of the machine)"
        ) from error


def _may_pass(error: BaseException) -> bool:
    """Whether another attempt may succeed. Each library behind fsspec has failures of its own."""
    return isinstance(error, Exception) and not isinstance(error, _FINAL) and not _lacks_credentials(error)


def _lacks_credentials(error: BaseException) -> bool:
    return type(error).__name__ in _WITHOUT_CREDENTIALS


def _waits() -> tenacity.wait.wait_base:
    """Return half of each wait, and up to as much again at random."""
    half = {"multiplier": FIRST_WAIT_S / 2, "max": LONGEST_WAIT_S / 2}
    return tenacity.wait_exponential(**half) + tenacity.wait_random_exponential(**half)


_RETRYING = tenacity.Retrying(
    retry=tenacity.retry_if_exception(_may_pass),
    stop=tenacity.stop_after_attempt(ATTEMPTS)
    | (tenacity.stop_after_attempt(LEAST_ATTEMPTS) & tenacity.stop_after_delay(LONGEST_S)),
    wait=_waits(),
)
