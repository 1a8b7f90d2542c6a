"""The answer to a question: as a table, as one JSON object, or as Arrow."""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from typing import Any, Final, Literal

import click
import msgspec

from deltabook.cli._results import ResultsPort
from deltabook.cli._tables import print_table
from deltabook.wire.service import ASK_PATH, AnsweredColumn, Question

__all__ = ["ask_question"]

_ARROW: Final = "application/vnd.apache.arrow.stream"
_PIECE_BYTES: Final = 256 * 1024
_TEXTS: Final = ("VARCHAR", "DATE", "TIMESTAMP", "BLOB", "UUID")
_SECONDS: Final = 600.0
"""Longer than the runtime's own limit of a question, which it reports itself."""


class _Answer(msgspec.Struct, frozen=True):
    epoch: int
    columns: tuple[AnsweredColumn, ...]
    rows: msgspec.Raw
    """As they came: their numbers may be longer than any type here."""


def ask_question(
    results: ResultsPort, sql: str, epoch: int | None, form: Literal["table", "json", "arrow"], most: int
) -> None:
    """Ask a question and print the answer; of a table the first ``most`` rows."""
    body = msgspec.json.encode(Question(sql, epoch))
    accept = _ARROW if form == "arrow" else "application/json"
    with results.open(ASK_PATH, _SECONDS, method="POST", body=body, accept=accept) as response:
        if form == "arrow":
            while piece := response.read(_PIECE_BYTES):
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            return
        answer = msgspec.json.decode(response.read(), type=_Answer)
    if form == "json":
        columns = msgspec.json.encode([column.name for column in answer.columns]).decode()
        types = msgspec.json.encode([column.type for column in answer.columns]).decode()
        rows = bytes(answer.rows).decode()
        click.echo(f'{{"epoch":{answer.epoch},"columns":{columns},"types":{types},"rows":{rows}}}')
        return
    _print_table(answer, most)


def _print_table(answer: _Answer, most: int) -> None:
    rows: list[list[Any]] = json.loads(bytes(answer.rows), parse_float=Decimal)
    shown = [["NULL" if value is None else value for value in row] for row in rows[:most]]
    names = [column.name for column in answer.columns]
    left = [column.name for column in answer.columns if column.type.startswith(_TEXTS)]
    print_table(f"epoch {answer.epoch}", names, shown, left=left)
    if len(rows) > most:
        click.echo(f"the first {most:,} of {len(rows):,} rows; --rows prints more")
