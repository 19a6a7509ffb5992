"""Calls over a network, made again where that may help."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

from pipeline.errors import UnreachableError, UserError

ATTEMPTS = 8
LEAST_ATTEMPTS, LONGEST_S = 3, 30.0
"""Attempts after which none is made any more once so many seconds are over: a library may wait long in each."""

FIRST_WAIT_S, LONGEST_WAIT_S = 0.25, 8.0
"""Waits double from attempt to attempt; each is shortened at random, so that many workers do not come back at once."""

_FINAL = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, TypeError, UserError)
"""Answers, not failures: asking again would bring the same."""

_WITHOUT_CREDENTIALS = frozenset({"NoCredentialsError", "PartialCredentialsError", "TokenRetrievalError"})
"""Of botocore, which need not be installed."""

Result = TypeVar("Result")


def patiently(what: str, call: Callable[..., Result], *arguments: Any) -> Result:
    """The result of a call, after up to eight attempts within about half a minute.

    Raises UnreachableError where none succeeds or the credentials do not suffice, UserError where there are none, and
    what is an answer (no such file) at once. ``what`` continues "cannot".
    """
    start = time.monotonic()
    for attempt in range(ATTEMPTS):
        try:
            return call(*arguments)
        except _FINAL:
            raise
        except PermissionError as error:  # mostly a token that has run out: nothing that one sample is to blame for
            raise UnreachableError(f"cannot {what}: not allowed ({error}); are the credentials still valid?") from error
        except Exception as error:  # each library behind fsspec has failures of its own
            if type(error).__name__ in _WITHOUT_CREDENTIALS:
                raise UserError(
                    f"cannot {what}: no credentials were found; give them as the provider's own tools take them "
                    "(environment, configuration file, role of the machine)"
                ) from error
            failure = error
            if attempt + 1 >= LEAST_ATTEMPTS and time.monotonic() - start > LONGEST_S:
                break
            time.sleep(min(FIRST_WAIT_S * 2**attempt, LONGEST_WAIT_S) * random.uniform(0.5, 1.0))
    tried = f"cannot {what}, tried {attempt + 1} times"
    raise UnreachableError(f"{tried}: {type(failure).__name__}: {failure}") from failure
