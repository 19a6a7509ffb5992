"""Candidates that hide parts of an image."""

from __future__ import annotations

from corruptions.candidates.catalogue import Candidate

CANDIDATES: tuple[Candidate, ...] = ()
