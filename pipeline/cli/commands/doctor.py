"""``robustshards doctor``."""

from __future__ import annotations

from pipeline.cli.console import print_json, print_line
from pipeline.cli.options import Printing, command


@command()
def doctor(printing: Printing) -> None:
    """Show the libraries, decoders, resize operators, CPU and GPU of this machine.

    For missing parts, prints the command that installs them.
    """
    from pipeline.builder.doctor import examine, facts

    findings = examine()
    if printing.as_json:
        print_json(**facts(findings))
        return
    for each in findings:
        print_line(f"{each.what}: {each.found}")
        if each.remedy:
            print_line(f"    install with: {each.remedy}")
