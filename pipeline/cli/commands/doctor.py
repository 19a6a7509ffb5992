"""``robustshards doctor``."""

from __future__ import annotations

from pipeline.cli.console import print_json, print_line, report_errors
from pipeline.cli.options import JsonOption


def doctor(as_json: JsonOption = False) -> None:
    """Show the libraries, decoders, resize operators, CPU and GPU of this machine.

    For missing parts, prints the command that installs them.
    """
    with report_errors(as_json):
        from pipeline.builder.doctor import examine, facts

        findings = examine()
        if as_json:
            print_json(**facts(findings))
            return
        for each in findings:
            print_line(f"{each.what}: {each.found}")
            if each.remedy:
                print_line(f"    install with: {each.remedy}")
