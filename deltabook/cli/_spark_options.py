"""Options of commands that start Spark: master, addresses, secrets and memory of driver and executors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import click

from deltabook.cli._options import OptionError, given_run_id
from deltabook.wire.access import is_loopback
from runtime.spark.config import SparkConfig
from runtime.spark.settings import check_config

__all__ = ["MEMORY", "check_pages", "logs_json", "parse_settings", "spark_options"]


class _Memory(click.ParamType[str]):
    """Size in Java's notation: 512m, 2g."""

    name = "memory"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value).lower()
        if text[:-1].isascii() and text[:-1].isdigit() and text[-1] in "mg" and int(text[:-1]) > 0:
            return text
        return self.fail(f"expected a size such as 512m or 2g, was {value!r}", param, ctx)


MEMORY: Final = _Memory()
"""Size in Java's notation: 512m, 2g."""
_PORT: Final = click.IntRange(0, 65535)
_COUNT: Final = click.IntRange(1, 4096)
_SHARDS: Final = click.option(
    "--shards", type=click.IntRange(1, 1024), default=2, help="Shards of the views' state; use a few per core."
)
_OPTIONS: Final = (
    click.option(
        "--master", default="local[2]", help="Master of Spark: local[N], spark://HOST:PORT, k8s://URL or yarn."
    ),
    click.option("--driver-host", default="127.0.0.1", help="Address at which executors reach this process."),
    click.option(
        "--driver-bind",
        default="",
        metavar="ADDRESS",
        help="Address that this process listens on.  [default: --driver-host]",
    ),
    click.option(
        "--driver-port", type=_PORT, default=0, help="Port of this process for executors; 0 picks a free port."
    ),
    click.option(
        "--block-manager-port", type=_PORT, default=0, help="Port of Spark's block manager; 0 picks a free port."
    ),
    click.option(
        "--spark-niceness",
        type=click.IntRange(0, 19),
        default=4,
        help="Niceness added to the processes of a local master.",
    ),
    click.option(
        "--spark-quiet-ms",
        type=click.IntRange(0, 2000),
        default=750,
        help="Shortest time between versions of a local master while they have no subscriber.",
    ),
    click.option("--driver-memory", type=MEMORY, default="1g", help="Java heap of the driver."),
    click.option("--executor-memory", type=MEMORY, default="1g", help="Java heap of an executor."),
    click.option(
        "--executor-cores", type=_COUNT, help="Concurrent tasks of an executor.  [default: all cores of a worker]"
    ),
    click.option("--max-cores", type=_COUNT, help="Maximum number of cores.  [default: all of a standalone cluster]"),
    click.option("--spark-secret-file", default="", metavar="FILE", help="File with the secret of the Spark cluster."),
    click.option("--spark-ui/--no-spark-ui", default=False, help="Serve Spark's own pages."),
    click.option("--spark-ui-port", type=_PORT, default=0, help="Port of Spark's pages; 0 picks a free port."),
    click.option(
        "--spark-ui-interface",
        default="127.0.0.1",
        help="Address of Spark's pages; one other than loopback requires --private-network.",
    ),
    click.option(
        "--private-network",
        is_flag=True,
        help="Declare the network private: Spark's pages may be served on other addresses than loopback.",
    ),
    click.option(
        "--spark-ui-proxy",
        is_flag=True,
        help="Serve Spark's pages through the master's page (see --ui-proxy of the master).",
    ),
    click.option(
        "--event-log", default="", metavar="DIR", help="Write event logs for `deltabook cluster history` to DIR."
    ),
    click.option("--spark-metrics/--no-spark-metrics", default=False, help="Serve Spark's metrics on its pages."),
    click.option("--spark-conf", multiple=True, metavar="KEY=VALUE", help="Additional setting of Spark; repeatable."),
)


def parse_settings(given: Sequence[str]) -> dict[str, str]:
    """Parse ``KEY=VALUE`` settings of Spark; raise `OptionError` for other text."""
    settings: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):
            raise OptionError(f"expected spark.KEY=VALUE for --spark-conf, was {key!r}")
        settings[key] = value
    return settings


def check_pages(interface: str, *, is_private: bool) -> None:
    """Raise `OptionError` if Spark's pages would listen beyond loopback on a network that is not private."""
    if not is_loopback(interface) and not is_private:
        raise OptionError(
            f"expected Spark's pages on loopback, as they have no token, was {interface}; "
            "--private-network declares the network private"
        )


def spark_options(*, shards: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds Spark's options and passes them to the command as ``spark``, a `SparkConfig`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def given(**values: Any) -> None:
            command(spark=_taken(values), **values)

        for option in reversed((*_OPTIONS[:1], _SHARDS, *_OPTIONS[1:]) if shards else _OPTIONS):
            given = option(given)
        return given

    return decorate


def _taken(values: dict[str, Any]) -> SparkConfig:
    """Remove the values of Spark's options from ``values`` and return their configuration."""
    interface, private = values.pop("spark_ui_interface"), values.pop("private_network")
    check_pages(interface, is_private=private)
    secret = values.pop("spark_secret_file")
    events = values.pop("event_log")
    config = SparkConfig(
        master=values.pop("master"),
        shards=values.pop("shards", 2),
        quiet_ms=values.pop("spark_quiet_ms"),
        niceness=values.pop("spark_niceness"),
        driver_memory=values.pop("driver_memory"),
        driver_host=values.pop("driver_host"),
        driver_bind=values.pop("driver_bind"),
        driver_port=values.pop("driver_port"),
        block_manager_port=values.pop("block_manager_port"),
        executor_memory=values.pop("executor_memory"),
        executor_cores=values.pop("executor_cores"),
        max_cores=values.pop("max_cores"),
        secret_file=str(Path(secret).resolve()) if secret else "",
        ui=values.pop("spark_ui"),
        ui_port=values.pop("spark_ui_port"),
        ui_interface=interface,
        ui_proxy=values.pop("spark_ui_proxy"),
        event_log=str(Path(events).resolve()) if events else "",
        metrics=values.pop("spark_metrics"),
        run_id=given_run_id(),
        logs_json=logs_json(),
        settings=parse_settings(values.pop("spark_conf")),
    )
    check_config(config)
    return config


def logs_json() -> bool:
    """Return True if the log lines of this command are JSON; Spark's log lines have the same format."""
    context = click.get_current_context(silent=True)
    return context is not None and context.find_root().params.get("log_format") == "json"
