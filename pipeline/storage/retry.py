"""Retry network calls with exponential backoff."""

from collections.abc import Callable
from typing import Any, TypeVar

import tenacity

from pipeline.errors import UnreachableError, UserError
from pipeline.text import one_line

MAX_ATTEMPTS = 8
MIN_ATTEMPTS, TIME_LIMIT_S = 3, 30.0
"""After this many seconds, only the first attempts are made, because a library may wait long in each attempt."""

FIRST_WAIT_S, MAX_WAIT_S = 0.25, 8.0
"""First and longest wait between attempts. Waits double, and random jitter shortens each by up to half."""

_FINAL = (
    *(FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError),
    *(TypeError, UserError),
)
"""Errors that a retry cannot fix."""

_ADVICE = {
    **dict.fromkeys(
        ("NoCredentialsError", "PartialCredentialsError", "TokenRetrievalError"),
        "no credentials found; set them as the provider documents, for example by environment variables, a "
        "configuration file or the role of the machine",
    ),
    **dict.fromkeys(("ParamValidationError", "HfUriError"), "the URL is invalid; correct it"),
}
"""Exception of botocore or huggingface_hub that a retry cannot fix -> what is wrong, and what to do about it. By name,
because these libraries are optional."""

Result = TypeVar("Result")


def with_retries(what: str, call: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function and return its result; retry up to eight times within about 30 seconds.

    Args:
        what: Description of the call; it follows "cannot" in error messages.
        call: The function to call.
        arguments: Its arguments.

    Raises:
        UnreachableError: No attempt succeeded, or permission was denied.
        UserError: No credentials were found, or the URL is invalid.
        OSError: The storage service responded with an error that a retry cannot fix, for example FileNotFoundError.
    """
    try:
        return _RETRYING(call, *arguments)
    except tenacity.RetryError as error:
        failure, count = error.last_attempt.exception(), error.last_attempt.attempt_number
        tried = f"the store does not answer: cannot {what} after {count} attempts"
        raise UnreachableError(f"{tried}: {type(failure).__name__}: {failure}") from failure
    except PermissionError as error:  # usually an expired token, which affects all samples alike
        raise UnreachableError(
            f"cannot {what}: permission denied ({error}); check that the credentials are valid"
        ) from error
    except Exception as error:
        if (advice := _ADVICE.get(type(error).__name__)) is None:
            raise
        raise UserError(f"cannot {what}: {advice} ({one_line(str(error))})") from error


def _is_temporary(error: BaseException) -> bool:
    """Return whether a retry may succeed. Each library behind fsspec has its own exceptions, so most are retried."""
    return isinstance(error, Exception) and not isinstance(error, _FINAL) and type(error).__name__ not in _ADVICE


_HALF = {"multiplier": FIRST_WAIT_S / 2, "max": MAX_WAIT_S / 2}
"""Half of a wait is fixed and the rest random."""

_RETRYING = tenacity.Retrying(
    retry=tenacity.retry_if_exception(_is_temporary),
    stop=tenacity.stop_after_attempt(MAX_ATTEMPTS)
    | (tenacity.stop_after_attempt(MIN_ATTEMPTS) & tenacity.stop_after_delay(TIME_LIMIT_S)),
    wait=tenacity.wait_exponential(**_HALF) + tenacity.wait_random_exponential(**_HALF),
)
