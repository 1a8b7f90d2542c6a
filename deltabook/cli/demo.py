"""`deltabook demo`: run exchange, runtime, strategies and dashboard, show their figures, and report the outcome."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, cast

import click
import msgspec
from rich.console import Console

from deltabook.cli._options import FloatRange, given_run_id
from deltabook.demo import (
    ChildError,
    DemoError,
    DemoFigures,
    Feed,
    Flow,
    InterruptedDemoError,
    LineScreen,
    LiveScreen,
    Screen,
    SparkPlace,
    Supervisor,
    capture_file,
    make_run_folder,
    make_stages,
)
from deltabook.demo.plan import SCALES
from deltabook.demo.screen import summary_table
from deltabook.wire.advice import install_command
from runtime.native.cache import FOLDER_VARIABLE, SWITCH_VARIABLE
from runtime.spark.requirements import missing_requirement

__all__ = ["command"]

_SECONDS: Final = 30.0
"""Run time of a demo, in seconds."""
_CHAOS_SECONDS: Final = 120.0
"""Run time of a demo with --chaos, in seconds."""
_CHAOS_EVERY_S: Final = 30.0
"""Time between two kills with --chaos, in seconds."""
_WITHOUT_SPARK: Final = (
    "the express lane maintains all views; deltabook[spark] adds Spark as the lane of record, deltabook[java] the Java "
    f"that Spark needs: {install_command('spark', 'java')}"
)


def _child_environ(environ: Mapping[str, str]) -> dict[str, str]:
    # The demo sets all options of its children, so options in the environment, which are for commands that a person
    # types, are removed. The variables of the kernel cache are not options of a command, and are passed on.
    handed_on = {FOLDER_VARIABLE, SWITCH_VARIABLE}
    kept = {name: value for name, value in environ.items() if not name.startswith("DELTABOOK_") or name in handed_on}
    return {**kept, "PYTHONUNBUFFERED": "1"}


def _show_summary(figures: DemoFigures) -> None:
    width = shutil.get_terminal_size((100, 24)).columns
    Console(file=sys.stdout, width=max(80, width)).print(summary_table(figures, "Deltabook: what the demo did"))


def _report(
    outcome: Literal["ok", "failed", "interrupted"], text: str, figures: DemoFigures | None, as_json: bool
) -> None:
    if as_json:
        record = {} if figures is None else figures.record()
        click.echo(msgspec.json.encode({"ok": outcome == "ok", "outcome": outcome, "reason": text, **record}))
    else:
        click.echo(f"demo: {outcome}: {text}")


@click.command("demo")
@click.option(
    "--seconds",
    type=FloatRange(min=0, min_open=True),
    help="Seconds to run after every lane has published.  [default: 30, with --chaos 120]",
)
@click.option(
    "--flow",
    type=click.Choice(["agents", "capture"]),
    default="agents",
    help="Order flow: simulated traders, or a recording of BTC/USD.",
)
@click.option(
    "--feed-protocol",
    "feed",
    type=click.Choice(["text", "itch"]),
    help="Protocol of the runtime's feed.  [default: itch with agents, text with capture]",
)
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Empty folder for the run.  [default: a new one in ./runs]",
)
@click.option(
    "--spark/--no-spark",
    "wants_spark",
    default=None,
    help="Maintain the views on Spark too.  [default: where Spark is installed]",
)
@click.option("--chaos", is_flag=True, help="Kill the runtime every 30 s (kill -9) to show its recovery.")
@click.option("--workers", type=click.IntRange(0, 16), default=0, help="Start a Spark cluster with this many workers.")
@click.option(
    "--master", default="", metavar="URL", help="Use this Spark cluster.  [default: Spark within the runtime]"
)
@click.option("--spark-secret-file", default="", metavar="FILE", help="File with the secret of the Spark cluster.")
@click.option(
    "--pg-port",
    type=click.IntRange(0, 65535),
    help="Port for PostgreSQL clients such as psql; 0 picks a free port.  [default: closed]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON; progress goes to standard error.")
@click.pass_context
def command(
    context: click.Context,
    seconds: float | None,
    flow: str,
    feed: str | None,
    folder: Path | None,
    wants_spark: bool | None,
    chaos: bool,
    workers: int,
    master: str,
    spark_secret_file: str,
    pg_port: int | None,
    as_json: bool,
) -> None:
    """Start an exchange, a runtime, strategies and a dashboard, show their figures, and stop them.

    A process that ends unexpectedly is restarted. Without Spark, the express lane maintains all views.

    The last line is `demo: ok: FIGURES` and the exit code 0, or `demo: failed: REASON` and 1.
    """
    if workers and master:
        raise click.UsageError("expected --workers or --master, was both")
    place = SparkPlace(workers, master, str(Path(spark_secret_file).resolve()) if spark_secret_file else "")
    is_without_spark = _is_without_spark(wants_spark, place)
    figures: DemoFigures | None = None
    try:
        run_folder = make_run_folder(folder, now=datetime.now(UTC))
        chosen = cast(Flow, flow)
        capture = capture_file(os.environ) if chosen == "capture" else None
        spark = None if is_without_spark else place
        stages = make_stages(
            run_folder, chosen, capture, cast(Feed | None, feed), run_id=given_run_id(), spark=spark, pg_port=pg_port
        )
        supervisor = Supervisor(
            stages,
            run_folder,
            _screen(as_json),
            seconds=seconds or (_CHAOS_SECONDS if chaos else _SECONDS),
            environ=_child_environ(os.environ),
            scale=SCALES[chosen],
            chaos_s=_CHAOS_EVERY_S if chaos else 0.0,
        )
        figures = supervisor.figures
        click.echo(f"demo: run folder {run_folder}", err=as_json)
        if is_without_spark and wants_spark is None:
            click.echo(f"demo: {_WITHOUT_SPARK}", err=as_json)
        supervisor.run()
    except InterruptedDemoError as error:
        _report("interrupted", "" if figures is None else figures.summary(), figures, as_json)
        context.exit(128 + error.signal_number)
    except DemoError as error:
        for line in error.log_lines if isinstance(error, ChildError) else ():
            click.echo(f"  {line}", err=True)
        _report("failed", str(error), figures, as_json)
        context.exit(1)
    if not as_json:
        _show_summary(figures)
    shortfalls = figures.shortfalls()
    _report("failed" if shortfalls else "ok", "; ".join(shortfalls) or figures.summary(), figures, as_json)
    context.exit(1 if shortfalls else 0)


def _is_without_spark(wants_spark: bool | None, place: SparkPlace) -> bool:
    """Return True if the demo runs on the express lane alone; raise `click.UsageError` for contradicting options."""
    is_placed = bool(place.workers or place.master)
    if wants_spark is False and is_placed:
        raise click.UsageError("expected --workers and --master with Spark alone, was --no-spark")
    if wants_spark is False:
        return True
    missing = missing_requirement(os.environ)
    if missing and (wants_spark or is_placed):
        raise click.ClickException(missing)
    return bool(missing)


def _screen(as_json: bool) -> Screen:
    if as_json:
        return LineScreen(sys.stderr)
    return LiveScreen(Console()) if sys.stdout.isatty() else LineScreen(sys.stdout)
