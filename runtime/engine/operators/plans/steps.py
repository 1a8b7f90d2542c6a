"""Steps of a plan: their operations, the steps that feed them, and the way in which they take rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from runtime.engine.operators.operator import ENDED, Operator
from runtime.state import ObjectSpace

__all__ = ["Place", "Port", "Step", "StepKind", "earlier", "fingerprint", "in_order"]

StepKind = Literal["stream", "table", "arrival", "barrier", "ordered", "complete"]
"""Way in which a step takes rows. A "stream" or "table" step takes rows from outside, an "arrival" step takes rows as
they arrive, and a "barrier" step takes all rows at the barrier. An "ordered" step takes rows in order of time, up to
and including the watermark. A "complete" step takes rows in the same order, but only those before the least watermark
of its ports."""


@dataclass(frozen=True, slots=True)
class Place:
    """Name and object space of an operator that is created."""

    name: str
    """Name of the operator, unique in the plan, and of its state in the object space."""
    space: ObjectSpace
    """Object space with the operator's state."""


@dataclass(frozen=True, slots=True)
class Port:
    """Input of a step that takes rows in order."""

    time: str
    """Name of the column by which the rows are ordered."""
    lag: int = 0
    """Greatest difference between the watermark of the input and that of the column."""
    keys: tuple[str, ...] = ()
    """Names of the columns by which rows of equal times are ordered; further ties keep the order of arrival."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Step of a plan; immutable, so that plans can share steps. Steps are equal only to themselves."""

    kind: StepKind
    """Way in which the step takes rows."""
    label: str
    """Description for people: the operator with its keys and conditions, or the name of a relation."""
    schema: pa.Schema
    """Schema of the output."""
    inputs: tuple[Step, ...] = ()
    """Steps that feed the ports, in their order."""
    make: Callable[[Place], Operator] | None = None
    """Function that creates the operator; None for a relation."""
    ports: tuple[Port, ...] = ()
    """Ports of a step that takes rows in order."""
    times: tuple[tuple[str, int], ...] = ()
    """Columns that are event times, each with a lag: no later row has a value below the step's watermark less the
    lag."""
    is_ordered: bool = False
    """True if rows are in the order of each of the columns of ``times``."""
    state: str = ""
    """Description of the state, for people; empty if there is none."""

    @property
    def time(self) -> tuple[str, int] | None:
        """Event time of the rows: ``t`` if it is in `times`, otherwise the first of `times`; None if there is none."""
        return next((each for each in self.times if each[0] == "t"), next(iter(self.times), None))


def fingerprint(last: Step) -> list[str]:
    """Return the properties on which the state of a plan depends, one line for each step.

    The lines have each step's way of taking rows, its columns, types and keys. In the object space, the state of a step
    is named by the step's number, so that only a plan with the same lines may read the state. The line of a step
    without state omits its expressions.
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
    """Return a watermark less a lag; the watermark of an input that has ended is returned unchanged."""
    return ENDED if watermark == ENDED else watermark - lag


def in_order(last: Step) -> Iterator[Step]:
    """Yield this step and all steps that lead to it, each after the steps that feed it."""
    done: set[int] = set()

    def visit(step: Step) -> Iterator[Step]:
        if id(step) in done:
            return
        done.add(id(step))
        for each in step.inputs:
            yield from visit(each)
        yield step

    return visit(last)
