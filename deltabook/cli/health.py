"""`deltabook health`: health check of a process, for container engines."""

from __future__ import annotations

from pathlib import Path

import click

from deltabook.cli._options import ConfigFileError, FloatRange
from deltabook.cli._ports import CliPort, print_json
from deltabook.cluster.health import PROBES, Health, HealthRole, judge

__all__ = ["command"]


@click.command("health")
@click.argument("role", type=click.Choice(sorted(PROBES)), envvar="DELTABOOK_HEALTH_ROLE")
@click.option(
    "--at",
    default="",
    metavar="HOST:PORT",
    help="Port of the process.  [default: that of the container image, on localhost]",
)
@click.option("--token-file", default="", metavar="FILE", help="File with the token of the port.")
@click.option(
    "--ca-file", default="", metavar="FILE", help="PEM file with the CA of the port's certificate; connects with TLS."
)
@click.option("--timeout", "timeout_s", type=FloatRange(0.1, 60), default=5.0, help="Seconds to wait for an answer.")
@click.option(
    "--most-behind",
    "most_behind_s",
    type=FloatRange(0.1),
    default=60.0,
    help="Seconds that the results of a runtime may be behind its feed.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole answer as JSON.")
@click.pass_context
def command(
    context: click.Context,
    *,
    role: HealthRole,
    at: str,
    token_file: str,
    ca_file: str,
    timeout_s: float,
    most_behind_s: float,
    as_json: bool,
) -> None:
    """Check the health of a process: print one line; the exit code is 0 if it is ready and has not failed, else 1."""
    health = _asked(role, at, token_file, ca_file, timeout_s=timeout_s, most_behind_s=most_behind_s)
    if as_json:
        print_json(health)
    else:
        click.echo(f"{role}: {'healthy' if health.healthy else 'unhealthy'}: {health.reason}")
    context.exit(0 if health.healthy else 1)


def _asked(
    role: HealthRole, where: str, token_file: str, ca_file: str, *, timeout_s: float, most_behind_s: float
) -> Health:
    probe = PROBES[role]
    where = where or f"localhost:{probe.port}"
    port = CliPort(
        where,
        "--at",
        f"the {role}",
        token_file=Path(token_file) if token_file else None,
        ca_file=Path(ca_file) if ca_file else None,
        timeout_s=timeout_s,
    )
    try:
        answer = port.ask("GET", probe.path)
    except ConfigFileError as error:
        return Health(role, healthy=False, reason=str(error), status={})
    return judge(role, answer, most_behind_s)
