"""Generated lines say what the tables say."""

from __future__ import annotations

import csv
import io
import json

from bench.flow import feed_table
from bench.ingest.texts import csv_lines, json_lines, wide_table


def test_json_lines_hold_the_rows() -> None:
    for table in (feed_table(50, 10, 1), wide_table(20, 1), feed_table(60, 10, 1).slice(7, 20)):
        rows = [json.loads(line) for line in json_lines(table).splitlines()]
        assert rows == table.to_pylist()


def test_csv_lines_hold_the_rows() -> None:
    table = wide_table(20, 2)
    rows = list(csv.reader(io.StringIO(csv_lines(table).decode())))
    expected = [list(row.values()) for row in table.to_pylist()]
    assert [[type(v)(t) for v, t in zip(*pair, strict=True)] for pair in zip(expected, rows, strict=True)] == expected
    assert len(rows[0]) == 20
