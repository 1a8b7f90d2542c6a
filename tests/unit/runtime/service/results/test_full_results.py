"""A hub that begins with a full result knows what one knows that has read all results."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from runtime.compiler import MARKET_RELATIONS, NamedSelect, Program, compile_program, encode_program, extend_program
from runtime.epochs import Cut, Footer, ResultLog
from runtime.plan import without_view
from runtime.service.results import full_results
from runtime.service.results.hub import Hub
from runtime.views.rows import change_schema

VOLUME = NamedSelect("volume", "SELECT symbol, SUM(volume) AS volume FROM bids GROUP BY symbol")
ORDERS = NamedSelect("orders", "SELECT symbol, COUNT(*) AS orders FROM asks GROUP BY symbol")
BEGUN_WITH = compile_program([VOLUME], MARKET_RELATIONS, mode="sql")
BOTH = extend_program(BEGUN_WITH, [ORDERS], MARKET_RELATIONS)
ORDERS_ONLY = without_view(BOTH, "volume")
VOLUME_AGAIN = extend_program(ORDERS_ONLY, [VOLUME], MARKET_RELATIONS)


SCHEMAS = {view.name: change_schema(view.columns) for view in BOTH.views}


def changes(view: str, *rows: tuple[str | None, int, int]) -> list[pa.RecordBatch]:
    schema = SCHEMAS[view]
    arrays = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), schema.types, strict=True)]
    return [pa.RecordBatch.from_arrays(arrays, schema=schema)]


class Log:
    """A result log and the hub of a runtime that never ended."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.results = ResultLog(directory)

    def publish(
        self, view: str, *rows: tuple[str | None, int, int], program: Program | None = None, failed: str = ""
    ) -> None:
        begin = self.results.latest()
        footer = Footer(
            begin,
            begin + 1,
            cuts={"feed": Cut("S", begin * 10, 0)},
            control=b"" if program is None else encode_program(program),
            attributes={f"failed/{failed}": "it broke"} if failed else {},
        )
        self.results.publish(begin, begin + 1, {view: changes(view, *rows)} if rows else {}, footer)

    def known(self) -> dict[str, Any]:
        """What a hub knows that begins with this log."""
        hub = Hub(BEGUN_WITH, lambda: 0)
        full_results.restore(hub, ResultLog(self.directory))
        return {
            "program": hub.program,
            "version": hub.version,
            "cuts": hub.cuts,
            "failed": hub.failed,
            "since": hub.since,
            "updates": hub.updates,
            "rows": {view.name: _rows(hub, view.name) for view in hub.views if view.name not in hub.failed},
        }


def _rows(hub: Hub, name: str) -> Counter[Any]:
    columns = [column.to_pylist() for column in hub.result(name).rows().columns]
    return Counter(list(zip(*columns, strict=True)))


def test_a_full_result_stands_for_everything_before_it(tmp_path: Path) -> None:
    log = Log(tmp_path)
    steps: list[tuple[Any, ...]] = [
        ("volume", ("A", 5, 1), ("B", 7, 2)),
        ("volume", ("A", 5, -1), ("A", 6, 1), ("B", 7, -1), (None, 1, 1)),
        ("orders", ("A", 3, 1), BOTH),
        ("volume",),
        ("orders", ("A", 3, -1), ORDERS_ONLY),
        ("orders", ("B", 4, 1)),
        ("volume", ("C", 9, 1), VOLUME_AGAIN),
        ("orders", "orders"),
        ("volume", ("C", 9, -1), ("C", 8, 1)),
    ]
    for fulls, (view, *rest) in enumerate(steps, 1):
        rows = [one for one in rest if isinstance(one, tuple)]
        program = next((one for one in rest if isinstance(one, Program)), None)
        failed = next((one for one in rest if isinstance(one, str)), "")
        log.publish(view, *rows, program=program, failed=failed)
        before = log.known()
        full_results.put_full(log.results, BEGUN_WITH)
        assert log.known() == before, f"with {fulls} full results"
        log.results.retire(log.results.latest())
        assert log.known() == before, f"with {fulls} full results and what was before them retired"
    assert len(list(tmp_path.iterdir())) == 2 + 1, "two full ones and the result between them"
    assert before["rows"] == {"volume": Counter({("C", 8, 1): 1})}
    assert (before["failed"], before["since"]) == ({"orders": "it broke"}, {"orders": 3, "volume": 7})
