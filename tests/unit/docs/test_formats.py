"""The format that docs/formats.md writes is one: read from the page, registered, and compared row by row."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from runtime.formats import (
    Condition,
    DeadLetter,
    Field,
    InOrder,
    InputFormatter,
    Limits,
    Malformed,
    Pushdown,
    RawBuffer,
    Schema,
    registry,
)

PAGE = Path(__file__).parents[3] / "docs" / "formats.md"
MODULE = "docs_formats_fix"
FIELDS = (
    Field("kind", "char", path="35"),
    Field("symbol", "string", path="55"),
    Field("quantity", "int32", path="38"),
    Field("price", "int64", nullable=True, path="44"),
)
GOOD = b"35=D|55=ACME|38=100|44=10120|\n\n38=7|5=x|35=8|55=GLOBEX|\n55=A=B|35=D|38=1|44=|\n"
GOOD_ROWS = [("D", "ACME", 100, 10120), ("8", "GLOBEX", 7, None), ("D", "A=B", 1, None)]
MIXED = GOOD + b"55=ACME|35=D|38=ten|\n35=D|38=5|\n35=D|55=INITECH|38=3|44=x|9=1"
MIXED_ROWS = [*GOOD_ROWS, ("D", "INITECH", 3, None)]


@pytest.fixture
def fix(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The page's Python blocks, run one after another as one module, in a registry that ends with the test."""
    monkeypatch.setattr(registry, "_registered", {})
    module = ModuleType(MODULE)
    monkeypatch.setitem(sys.modules, MODULE, module)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), module.__dict__)
    return module


def formatted(
    schema: Schema, data: bytes, size: int, pushdown: Pushdown | None = None
) -> tuple[list[tuple[Any, ...]], list[DeadLetter], int]:
    """Rows, dead letters and the number of bad tuples, from shuffled buffers of this size."""
    raws = [RawBuffer(0, n + 1, data[at : at + size], at) for n, at in enumerate(range(0, len(data), size))]
    random.Random(size).shuffle(raws)
    formatter, order = InputFormatter(schema, pushdown or Pushdown()), InOrder(1000)
    batches = [batch for raw in raws for batch in order.add(formatter.format([raw]).batches)]
    batches += order.add(formatter.finish(0))
    rows = [tuple(row.values()) for batch in batches for row in batch.rows.to_pylist()]
    return rows, [letter for batch in batches for letter in batch.dead], sum(batch.bad for batch in batches)


@pytest.mark.parametrize("size", [1, 2, 7, 30, 1000])
@pytest.mark.usefixtures("fix")
def test_buffers_of_any_size_in_any_order_give_the_same_rows(size: int) -> None:
    schema = Schema(FIELDS, format=registry.format_named("fix"))
    assert formatted(schema, GOOD, size) == (GOOD_ROWS, [], 0)
    rows, letters, bad = formatted(schema, MIXED, size)
    assert rows == MIXED_ROWS
    assert bad == 2
    assert [(letter.row, letter.field, letter.byte_offset) for letter in letters] == [
        (3, "quantity", MIXED.index(b"55=ACME|35=D|38=ten")),
        (4, "symbol", MIXED.index(b"35=D|38=5|")),
    ]
    assert "b'ten' is not a value of int32" in str(letters[0])


@pytest.mark.usefixtures("fix")
def test_policies_limits_and_pushdown_apply_to_it() -> None:
    format_ = registry.format_named("fix")
    skip = Schema(FIELDS, format=format_, malformed=Malformed.SKIP, malformed_nullable=Malformed.SKIP)
    assert formatted(skip, MIXED, 50) == (GOOD_ROWS, [], 3)
    short = Schema(FIELDS, format=format_, limits=Limits(tuple_bytes=25))
    assert formatted(short, GOOD, 1000)[0] == GOOD_ROWS[1:]
    wanted = Pushdown(("symbol",), (Condition("price", ">", 10_000),))
    assert formatted(Schema(FIELDS, format=format_), GOOD, 10, wanted) == ([("ACME",)], [], 0)
    unread = formatted(Schema(FIELDS, format=format_), MIXED, 10, Pushdown(("kind",)))
    assert unread[0] == [("D",), ("8",), ("D",), ("D",), ("D",), ("D",)]


@pytest.mark.usefixtures("fix")
def test_its_field_is_an_option_of_its_name() -> None:
    schema = Schema(FIELDS, format=registry.format_named("fix", {"bar": r"\x01"}))
    assert formatted(schema, GOOD.replace(b"|", b"\x01"), 9)[0] == GOOD_ROWS
