"""``robustshards doctor``."""

from __future__ import annotations

from pipeline.cli.console import errors_told, print_json, say
from pipeline.cli.options import JsonOption


def doctor(as_json: JsonOption = False) -> None:
    """Show what this machine has: decoders with fingerprints, libraries, CPU, GPU; and how to install the rest."""
    with errors_told(as_json):
        from pipeline.build.doctor import examine, facts

        findings = examine()
        if as_json:
            print_json(**facts(findings))
            return
        for each in findings:
            say(f"{each.what}: {each.found}")
            if each.remedy:
                say(f"    install with: {each.remedy}")
