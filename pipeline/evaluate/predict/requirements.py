"""Requirements of an evaluation."""

from __future__ import annotations

import os

from pipeline.errors import UserError


def check_requirements() -> None:
    """Import torch. Raise UserError if it is not installed or the current folder was deleted."""
    try:
        os.getcwd()
    except OSError:  # importing torch would abort the process
        raise UserError("the current folder was deleted: change to another folder with cd DIR") from None
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise UserError(f"{error.name} is not installed: pip install 'robustshards[evaluate]'") from error
