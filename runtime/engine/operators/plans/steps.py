"""Steps of a plan: what each does to the batches, and which others it takes them from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from runtime.engine.operators.operator import Operator
from runtime.state import ObjectSpace

__all__ = ["Place", "Step", "in_order"]

StepKind = Literal["scan", "operator", "exchange", "gather"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operator that is made will stand."""

    name: str
    """Its own among all operators of the plan; what it keeps is called so in the object space."""
    space: ObjectSpace | None
    """For what it keeps; None: in memory only."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One step; never changed, so that plans can share steps. Steps are equal only to themselves."""

    kind: StepKind
    """A scan takes what comes from outside; an exchange and a gather only say where batches go."""
    label: str
    """What it does, for people: the operator, its keys and conditions."""
    schema: pa.Schema
    """Of its output."""
    inputs: tuple[Step, ...] = ()
    """What feeds its ports, in their order."""
    make: Callable[[Place], Operator] | None = None
    """Makes its operator."""
    order: tuple[str, ...] = ()
    """Columns by which the rows of an epoch are known to be sorted, ascending with NULL last."""
    instances: int = 1
    """How many of it run side by side."""
    spread: tuple[str, ...] = ()
    """Where there are several instances: the columns whose hash says which one has a row; () if that is not known."""
    state: str = ""
    """What it holds until a barrier or keeps over it, for people."""
    cannot_drain: str = ""
    """Why plans with it refuse barriers; empty: they do not."""


def in_order(last: Step) -> Iterator[Step]:
    """All steps that lead to this one, itself included, each after those that feed it."""
    done: set[int] = set()

    def visit(step: Step) -> Iterator[Step]:
        if id(step) in done:
            return
        done.add(id(step))
        for each in step.inputs:
            yield from visit(each)
        yield step

    return visit(last)
