"""A plan as a tree: its operators from the last to the first, with what each keeps."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from runtime.engine.operators.plans.sqlscope import HIDDEN
from runtime.engine.operators.plans.steps import Step

__all__ = ["drawn"]


def drawn(last: Step) -> str:
    """Return the plan that ends with this step, a line an operator and another one for what it keeps."""
    return "\n".join(_lines(last, "", set()))


def _lines(step: Step, indent: str, done: set[int]) -> Iterator[str]:
    title = f"{step.kind} {step.label}" if step.kind in ("stream", "table") else step.label.replace(f'"{HIDDEN}".', "")
    if id(step) in done and step.inputs:
        yield f"{indent}{title}, as above"
        return
    done.add(id(step))
    yield f"{indent}{title} → {_columns(step.schema)}"
    if step.state:
        yield f"{indent}│ keeps {step.state}"
    inner = indent + ("  " if len(step.inputs) > 1 else "")
    for each in step.inputs:
        yield from _lines(each, inner, done)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {_type(field.type)}" for field in schema)


def _type(kind: pa.DataType) -> str:
    return f"integer with {kind.scale} decimals" if pa.types.is_decimal(kind) and kind.scale else (
        "int128" if pa.types.is_decimal(kind) else str(kind)
    )  # fmt: skip
