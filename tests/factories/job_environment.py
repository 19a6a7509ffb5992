"""An environment of their own for the workers of one command on a Ray cluster that it joins."""

from __future__ import annotations

import json
from collections.abc import Mapping


def environment_of_the_job(variables: Mapping[str, str]) -> str:
    """Return the value of RAY_JOB_CONFIG_JSON_ENV_VAR, by which Ray gives the variables to the workers of a job."""
    return json.dumps({"runtime_env": {"env_vars": dict(variables)}})
