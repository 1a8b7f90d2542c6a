"""The report of a rotation as a page of Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.endurance.nets import Net
from tests.endurance.rotation import Failure, NetState, State

__all__ = ["report"]

_SHOWN = 10


def report(nets: Mapping[str, Net], state: State, before: Mapping[str, int], commit: str) -> str:
    """The table of all nets, and what has failed; ``before`` are the units done before this run."""
    seconds = sum(net.seconds for net in state.nets.values())
    failed = sum(net.failed for net in state.nets.values())
    lines = [
        "# Endurance",
        "",
        f"{state.turn:,} slices in {_time(seconds)}, {failed} with failures; commit {commit}.",
        "",
        "| net | done in all | in this run | goal | reached | failing slices | rate | time | commit of the latest |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    lines += [_row(net, state.nets.get(net.name, NetState()), before.get(net.name, 0)) for net in nets.values()]
    for name, found in state.nets.items():
        for number, failure in enumerate(found.failures[:_SHOWN], 1):
            lines += ["", f"## {name}: failure {number} of {found.failed}", "", *_failure(failure)]
    return "\n".join(lines) + "\n"


def _row(net: Net, state: NetState, before: int) -> str:
    done = f"{state.done:,} {net.unit}"
    amount = state.items if net.unit == "seconds" else state.done
    items = net.items or net.unit
    if net.unit == "seconds":
        done += f" ({state.items:,} {items})"
    rate = f"{amount / state.seconds:,.2f} {items}/s" if state.seconds else "-"
    cells = (
        net.name, done, f"{state.done - before:,}", f"{net.goal:,} {net.unit}", f"{state.done / net.goal:.1%}",
        str(state.failed), rate, _time(state.seconds), state.commit or "-",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _failure(failure: Failure) -> Iterator[str]:
    yield f"{failure.reason}, commit {failure.commit}, output in `{failure.log}`. Repeat with"
    yield ""
    yield "```sh"
    yield from failure.replays
    yield "```"
    yield ""
    yield f"or the slice: `{failure.slice_command}`"
    yield ""
    yield "````text"
    yield failure.end
    yield "````"


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
