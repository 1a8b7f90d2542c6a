"""Steps of a plan: what each does to the rows, which others it takes them from, and how it takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from runtime.engine.operators.operator import ENDED, Operator
from runtime.state import ObjectSpace

__all__ = ["Place", "Port", "Step", "StepKind", "earlier", "fingerprint", "in_order"]

StepKind = Literal["stream", "table", "arrival", "barrier", "ordered", "complete"]
"""Way in which rows come: from outside, as a stream or a table; to an operator that takes them on arrival, or all at
the barrier; ordered by time as far as the watermark; or ordered, and complete on all ports up to the same time."""


@dataclass(frozen=True, slots=True)
class Place:
    """Name and object space of an operator that is made."""

    name: str
    """Unique among the operators of the plan; the name of its state in the object space."""
    space: ObjectSpace
    """Object space of its state."""


@dataclass(frozen=True, slots=True)
class Port:
    """One input of a step that takes rows in order."""

    time: str
    """The column by which they are ordered."""
    lag: int = 0
    """Greatest difference between the watermark of the input and that of the column."""
    keys: tuple[str, ...] = ()
    """The columns by which rows of equal times are ordered; the others come as they arrived."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One step; never changed, so that plans can share steps. Steps are equal only to themselves."""

    kind: StepKind
    """Way in which it takes rows."""
    label: str
    """Description for people: the operator, its keys and conditions; the name of a relation."""
    schema: pa.Schema
    """Schema of its output."""
    inputs: tuple[Step, ...] = ()
    """Steps that feed its ports, in their order."""
    make: Callable[[Place], Operator] | None = None
    """Makes its operator."""
    ports: tuple[Port, ...] = ()
    """Ports of a step that takes rows in order."""
    times: tuple[tuple[str, int], ...] = ()
    """The columns that are event times: no later row has one below the step's watermark less this number."""
    is_ordered: bool = False
    """True if rows come in the order of each of these times."""
    state: str = ""
    """Description of its state, for people."""

    @property
    def time(self) -> tuple[str, int] | None:
        """The event time of its rows: the column ``t`` if it is one, otherwise the first; None if there is none."""
        return next((each for each in self.times if each[0] == "t"), next(iter(self.times), None))


def fingerprint(last: Step) -> list[str]:
    """Return what the state of a plan depends on, a line a step: how it takes rows, their columns, types and keys.

    State in the object space is called by the number of its step, so that it may only be read by a plan that has the
    same lines. Of a step without state the text of its expressions is left out.
    """
    steps = list(in_order(last))
    numbers = {id(step): number for number, step in enumerate(steps)}
    lines = []
    for step in steps:
        label = step.label if step.state or step.kind in ("stream", "table") else ""
        columns = ", ".join(
            f"{field.name} {field.type}{'' if field.nullable else ' not null'}" for field in step.schema
        )
        ports = "; ".join(" ".join([port.time, str(port.lag), *port.keys]) for port in step.ports)
        inputs = ", ".join(str(numbers[id(each)]) for each in step.inputs)
        lines.append(f"{step.kind} {label} ({columns}) of {inputs} by {ports}")
    return lines


def earlier(watermark: int, lag: int) -> int:
    """Return a watermark less a lag; an input that has ended has no lag."""
    return ENDED if watermark == ENDED else watermark - lag


def in_order(last: Step) -> Iterator[Step]:
    """Yield all steps that lead to this one, itself included, each after those that feed it."""
    done: set[int] = set()

    def visit(step: Step) -> Iterator[Step]:
        if id(step) in done:
            return
        done.add(id(step))
        for each in step.inputs:
            yield from visit(each)
        yield step

    return visit(last)
