"""The environment of the workers of one command on a shared Ray cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping


def environment_of_the_job(variables: Mapping[str, str]) -> str:
    """Return the value of RAY_JOB_CONFIG_JSON_ENV_VAR that gives these variables to the workers of a job."""
    return json.dumps({"runtime_env": {"env_vars": dict(variables)}})
