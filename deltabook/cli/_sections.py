"""Sections of long helps. An option has one meaning in all commands, so one table maps options to sections."""

from __future__ import annotations

from collections.abc import Mapping
from types import MethodType
from typing import Final

import click

__all__ = ["MANY_OPTIONS", "SECTIONS", "group_help"]

MANY_OPTIONS: Final = 12
"""A command with more options has them in sections."""
SECTIONS: Final[Mapping[str, str]] = {
    "What it reads": (
        "--feed --upstream --system --upstream-symbols --feed-attempts --feed-protocol --feed-tick --feed-day "
        "--reader-dir --most-readers --data --data-dir --file --connect --format --symbol --stocks --day --tick "
        "--at-most-once --capture --results --results-token-file --results-ca-file --algo --algo-token-file "
        "--algo-ca-file --exchange --exchange-token-file --exchange-ca-file --peers --scale --ca-file --warm-up "
        "--limit --step --orderbook --trades --queue --max-crossed"
    ),
    "Views and rows": (
        "--views --express --spark --lane --mode --most-views --every-epoch --adaptor --column --option --relation "
        "--keep-rows --keep-time --step-us"
    ),
    "Strategies and orders": (
        "--orders --param --grid --fees --latency --compute --seed --broker --on-restart --order-fsync --keep-views"
    ),
    "The market": (
        "--instruments --hours --start --warm-up-seconds --agents --agent-style --set --agent-delay --rate --users "
        "--limits --opening-auction --trading --closing-auction --halt "
        "--collar-bps --max-live-orders --start-on --start-on-brokers"
    ),
    "Replay of a recording": "--replay --replay-mode --speed",
    "Where it listens": (
        "--port --itch-port --ouch-port --glimpse-port --mold-to --mold-port --admin-port --http-port --pg-port "
        "--interface --admin-interface --ui-interface --ui-port --ui-proxy --private-network --private-name "
        "--token-file --tls-cert --tls-key --admin-token-file --admin-tls-cert --admin-tls-key --allow-origin "
        "--secret-file"
    ),
    "Limits of its clients": (
        "--requests-per-s --most-subscribers --tuple-queues --queue-kilobytes --most-cursors --cursor-megabytes "
        "--cursor-seconds --questions --question-seconds --question-megabytes --question-rows"
    ),
    "Epochs, disk and speed": (
        "--dir --epoch-ms --epoch-messages --max-epochs-per-batch --snapshot-epochs --snapshot-megabytes "
        "--snapshot-results --retain-epochs --retain-megabytes --disk-limit-megabytes --threads --fsync "
        "--fsync-interval --snapshot-inputs --snapshot-interval --keep-snapshots --reactor --busy-poll-ms"
    ),
    "Spark": (
        "--master --shards --driver-host --driver-bind --driver-port --block-manager-port --spark-niceness "
        "--spark-quiet-ms --driver-memory --executor-memory --executor-cores --max-cores --spark-secret-file "
        "--spark-ui --spark-ui-port --spark-ui-interface --spark-ui-proxy --event-log --spark-metrics --spark-conf "
        "--cores --memory --metrics"
    ),
    "Running and output": (
        "--jobs --out --keep-results --json --stop-seconds --status-interval --exit-with-stdin --help"
    ),
}  # fmt: skip
"""Title → options, in the order of a help."""
_OTHERS: Final = "Other options"


def group_help(command: click.Command) -> None:
    """Have the help of a command show its options in sections if there are many."""
    if sum(isinstance(parameter, click.Option) for parameter in command.params) > MANY_OPTIONS:
        command.format_options = MethodType(_format_options, command)  # type: ignore[method-assign]


def _format_options(command: click.Command, context: click.Context, formatter: click.HelpFormatter) -> None:
    title_of = {option: title for title, options in SECTIONS.items() for option in options.split()}
    rows: dict[str, list[tuple[str, str]]] = {title: [] for title in (*SECTIONS, _OTHERS)}
    for parameter in command.get_params(context):
        # click 8.5 lists arguments too, which the usage line has.
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None:
            titles = [title_of[option] for option in parameter.opts if option in title_of]
            rows[titles[0] if titles else _OTHERS].append(record)
    for title, records in rows.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)
