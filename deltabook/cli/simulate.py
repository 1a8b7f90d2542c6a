"""`deltabook simulate`: an exchange, its agents and strategies on simulated time, in one process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from deltabook.cli._logging import log_warnings
from deltabook.cli._options import (
    SECONDS,
    FloatRange,
    collar_option,
    first_broker_option,
    json_option,
    parameters_option,
)
from deltabook.cli._terminal import progress
from deltabook.cli.backtest import print_result, views_of
from deltabook.cli.sweep import require_grid, run_and_print, sweep_options
from deltabook.wire.strict_json import decode_strictly
from runtime.spark.config import SparkConfig

if TYPE_CHECKING:
    from deltabook.wire.symbols import Instrument

__all__ = ["command"]


@click.command("simulate")
@click.argument("strategies", metavar="[STRATEGY]...", nargs=-1)
@click.option("--hours", type=FloatRange(0, 24, min_open=True), default=6.5, help="Hours of continuous trading.")
@click.option("--seed", default=1, help="Seed of the agents and of random latencies.")
@click.option(
    "--agents",
    default="day",
    metavar="NAME|FILE.json",
    help="Behaviour of the agents: day (calibrated, 200 agents), calibrated, lively, calm, a file, or `none`.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="GROUP.FIELD=VALUE",
    help="Setting of the agents, such as noise.market=0.1; repeatable.",
)
@click.option(
    "--rate",
    "rate_per_s",
    type=FloatRange(0, min_open=True),
    default=160.0,
    help="Requests per second of all agents together.",
)
@click.option(
    "--agent-delay",
    default="0us",
    metavar="TIME",
    help="Delay between a decision of the agents and the arrival of its requests.",
)
@click.option(
    "--instruments",
    default="ACME",
    metavar="A,B|FILE.json",
    help="Instruments of the market; the agents trade all of them.",
)
@click.option(
    "--opening-auction", "opening_s", type=SECONDS, default=0.0, help="Seconds of the opening auction; 0 skips it."
)
@click.option(
    "--closing-auction", "closing_s", type=SECONDS, default=0.0, help="Seconds of the closing auction; 0 skips it."
)
@click.option(
    "--halt",
    "halts",
    multiple=True,
    metavar="[SYMBOL:]AT+TIME[+AUCTION]",
    help="Halt of trading, as in 2h+5m+30s; repeatable.",
)
@collar_option
@click.option("--start", default="2026-01-05T09:30:00", help="Market time at which the simulation starts, in UTC.")
@click.option(
    "--warm-up-seconds", "warm_up_s", type=SECONDS, default=0.0, help="Market seconds before the strategies connect."
)
@parameters_option
@click.option(
    "--latency",
    "latencies",
    multiple=True,
    metavar="[STRATEGY=]MODEL",
    help="zero, fixed:feed=100us,order=50us,answer=50us, normal:order=50us~10us, lognormal:order=50us~1.5, "
    "distance:1200km~20us, file:F; repeatable.  [default: zero]",
)
@click.option(
    "--compute",
    "computes",
    multiple=True,
    metavar="[STRATEGY=]TIME",
    help="Computation time of a strategy per event; repeatable.  [default: 0us]",
)
@click.option("--fees", default="", metavar="FEES", help="Fees, as for `deltabook algo run`.")
@click.option(
    "--views",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    help="File or folder of .sql with views in addition to those that ship; repeatable.",
)
@click.option(
    "--step-us",
    type=click.IntRange(0),
    default=0,
    help="Microseconds of market time between updates of the views; 0 updates them after every batch.",
)
@first_broker_option
@click.option(
    "--dir",
    "journal",
    type=click.Path(path_type=Path, file_okay=False),
    help="New directory for the journal and the feed of the exchange.  [default: none]",
)
@click.option(
    "--out",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the report, the result as JSON, trades and orders; with --grid for the points and a heat map.",
)
@sweep_options(required=False)
@json_option
def command(  # noqa: PLR0917 - click passes every option by name
    strategies: tuple[str, ...],
    instruments: str,
    latencies: tuple[str, ...],
    computes: tuple[str, ...],
    folders: tuple[Path, ...],
    journal: Path | None,
    directory: Path | None,
    grids: tuple[str, ...],
    spark: SparkConfig,
    jobs: int | None,
    keep_results: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Run strategies (built-in names or .py files, or none) against agents that react to them, for a simulated day.

    The exchange, its agents and its auctions are those of `deltabook exchange`; time is simulated, and the same options
    give the same bytes. With --dir the exchange's journal and feed are written, for every command that reads them.

    With --grid a simulation is run for every combination of values: of parameters, of the options seed, hours, agents,
    rate, agent_delay, collar_bps, latency, compute and step_us, and of settings of the agents as in
    agents.noise.market. Each point is a task of Spark, or with --jobs of a process on this machine.
    """
    from deltabook.backtest.grid import parse_axis
    from deltabook.backtest.sweep import Sweep
    from deltabook.simulation import Simulation, SimulationConfig, SimulationError
    from deltabook.simulation.simulation import SimulationExperiment

    log_warnings()
    latency, by_latency = _by_name(latencies, "zero")
    compute, by_compute = _by_name(computes, "0us")
    config = SimulationConfig(
        strategies=strategies,
        instruments=_instruments(instruments),
        latency=latency,
        latencies=by_latency,
        compute=compute,
        computes=by_compute,
        views=views_of(folders),
        **options,
    )
    if grids:
        if journal is not None:
            raise click.UsageError("--dir cannot be used with --grid: it is the directory of one exchange")
        sweep = Sweep(config, [parse_axis(grid) for grid in grids], experiment=SimulationExperiment)
        run_and_print(sweep, spark, jobs, directory, keep_results=keep_results, as_json=as_json)
        return
    require_grid(click.get_current_context())
    simulation = Simulation(config, directory=journal)
    with progress("simulating", round(config.length_s)) as advance:
        result = simulation.run(lambda done_s, _: advance(round(done_s), "market seconds"))
    written = result.write(directory) if directory is not None else []
    if as_json:
        sys.stdout.buffer.write(result.to_json())
        sys.stdout.buffer.flush()
    else:
        print_result(result, "requests")
        click.echo(f"{simulation.agent_turns:,} turns of agents, {result.figures.feed_messages:,} feed messages")
        for path in written:
            click.echo(str(path))
    if result.failure:
        raise SimulationError(f"the simulation ended before the end of its day: {result.failure}")


def _by_name(given: tuple[str, ...], default: str) -> tuple[str, dict[str, str]]:
    """Return the value for all strategies, and the values of single strategies, which are given as ``NAME=value``.

    A text with a colon before its first ``=`` is a value for all, such as ``fixed:feed=100us``.
    """
    shared, own = default, {}
    for text in given:
        name, equals, value = text.partition("=")
        if equals and ":" not in name:
            own[name] = value
        else:
            shared = text
    return shared, own


def _instruments(given: str) -> tuple[Instrument, ...]:
    """Read instruments from a JSON file, or make them of symbols; the exchange's default instruments keep their scales
    and prices.
    """
    from deltabook.wire.symbols import Instrument
    from exchange_server.config import DEFAULT_INSTRUMENTS

    if given.endswith(".json"):
        try:
            listed: tuple[Instrument, ...] = decode_strictly(Path(given).read_bytes(), tuple[Instrument, ...])
        except (OSError, msgspec.DecodeError) as error:
            raise click.BadParameter(f"expected a JSON file of instruments, was {error}, at {given}") from error
        return listed
    known = {instrument.symbol: instrument for instrument in DEFAULT_INSTRUMENTS}
    return tuple(known.get(symbol) or Instrument(symbol) for symbol in given.split(",") if symbol)
