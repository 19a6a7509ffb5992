"""What must be there before a model can be evaluated."""

from __future__ import annotations

import os

from pipeline.errors import UserError


def check_requirements() -> None:
    """Import torch. Raise UserError where it is not installed, or would abort the process."""
    try:
        os.getcwd()
    except OSError:  # torch, and MKL in it, would abort the process
        raise UserError("the current folder was removed: change to another one, cd DIR") from None
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise UserError(f"{error.name} is not installed: pip install 'robustshards[evaluate]'") from error
