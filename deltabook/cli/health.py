"""`deltabook health`: health check of a process, for container engines."""

from __future__ import annotations

import time
from typing import Final

import click

from deltabook.cli._options import ConfigFileError, FloatRange, access_options
from deltabook.cli._ports import CliPort, print_json
from deltabook.cluster.health import PROBES, Health, HealthRole, judge

__all__ = ["command"]

_POLL_SECONDS: Final = 0.5
"""Time between two questions to a process that is not healthy yet."""


@click.command("health")
@click.argument("role", type=click.Choice(sorted(PROBES)), envvar="DELTABOOK_HEALTH_ROLE")
@click.option(
    "--at",
    default="",
    metavar="HOST:PORT",
    help="Port of the process.  [default: that of the container image, on localhost]",
)
@access_options("the port")
@click.option("--timeout", "timeout_s", type=FloatRange(0.1, 60), default=5.0, help="Seconds to wait for an answer.")
@click.option(
    "--wait",
    "wait_s",
    type=FloatRange(0, 3600),
    default=0.0,
    show_default=True,
    help="Seconds to wait for the process to become healthy; it is asked twice a second.",
)
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
    wait_s: float,
    most_behind_s: float,
    as_json: bool,
) -> None:
    """Check the health of a process: print one line; the exit code is 0 if it is ready and has not failed, else 1."""
    begun_s = time.monotonic()
    port = CliPort(
        at or f"localhost:{PROBES[role].port}",
        "--at",
        f"the {role}",
        token_file=token_file,
        ca_file=ca_file,
        timeout_s=timeout_s,
    )
    while not (health := _ask(role, port, most_behind_s)).healthy:
        if time.monotonic() - begun_s + _POLL_SECONDS > wait_s:
            break
        time.sleep(_POLL_SECONDS)
    if as_json:
        print_json(health)
    else:
        click.echo(f"{role}: {'healthy' if health.healthy else 'unhealthy'}: {health.reason}")
    context.exit(0 if health.healthy else 1)


def _ask(role: HealthRole, port: CliPort, most_behind_s: float) -> Health:
    try:
        return judge(role, port.ask("GET", PROBES[role].path), most_behind_s)
    except ConfigFileError as error:
        return Health(role, healthy=False, reason=str(error), status={})
