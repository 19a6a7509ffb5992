"""``robustshards doctor``."""

from pipeline.cli.options import Printing, command


@command()
def doctor(printing: Printing) -> None:
    """Show the libraries, decoders, resize operators, CPU and GPU of this machine.

    For missing parts, prints the command that installs them.
    """
    from pipeline.builder.doctor import examine, facts

    findings = examine()
    lines = []
    for each in findings:
        lines.append(f"{each.what}: {each.found}")
        if each.remedy:
            lines.append(f"    install with: {each.remedy}")
    printing.show(lines, **facts(findings))
