"""The client and a WebSocket's, neither of them in the service's process: docs that run, kills that nobody notices."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect as open_websocket

from queries import query_path
from runtime.client import Change, ChangeStream, connect
from tests.integration._processes import Results, Running, exchange, feed_position, runtime

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

VIEWS = [query_path(name) for name in ("best_quote", "broker_volume")]
NAMES = [view.stem for view in VIEWS]
TRACE = query_path("book_depth").with_name("trace-5000.csv")
REPLAY = ["--replay", str(TRACE), "--replay-mode", "as-recorded", "--symbol", "TRACE", "--start-on", "1"]
DOCS = Path(__file__).parents[3] / "docs" / "client.md"


def started(directory: Path, market: Running, *options: str) -> Running:
    """A runtime of express views alone."""
    lane = ["--no-spark", "--express", ",".join(map(str, VIEWS)), "--epoch-messages", "50"]
    return runtime(directory / "runtime", market.ready().ports["text"], [], *lane, *options)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a runtime while a market goes on."""
    directory = tmp_path_factory.mktemp("served")
    with exchange(directory / "exchange", *REPLAY, "--speed", "20") as market, started(directory, market) as engine:
        engine.wait_for("messages", 100)
        yield f"127.0.0.1:{engine.ready().ports['http']}"


def test_the_examples_of_the_docs_run(served: str, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 6
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(re.sub(r"127\.0\.0\.1:\d+", served, block), str(DOCS), "exec"), names)
    assert "broker_volume snapshot 0" in capsys.readouterr().out
    assert names["first"].num_rows <= 2
    assert set(names["positions"]) == {"broker_volume", "best_quote"}


def test_a_page_follows_views(served: str) -> None:
    with open_websocket(f"ws://{served}/v1/stream", open_timeout=60, close_timeout=60) as page:
        assert json.loads(page.recv(60))["type"] == "hello"
        page.send(json.dumps({"type": "subscribe", "id": "a", "views": NAMES, "by": "epoch"}))
        assert json.loads(page.recv(60))["type"] == "subscribed"
        at: dict[str, int] = {}
        frames = 0
        while frames < 6:
            event = json.loads(page.recv(60))
            if event["type"] != "frame":
                continue
            frames += 1
            for change in event["changes"]:
                if change["kind"] != "snapshot":
                    assert change["from"] == at[change["view"]]
                at[change["view"]] = change["to"]
            page.send(json.dumps({"type": "next", "id": "a"}))
        page.send("nonsense")
        while json.loads(page.recv(60))["type"] != "error":
            pass


def added_up(told: list[Change]) -> dict[str, Counter[tuple[Any, ...]]]:
    """What a reader of changes holds; spans follow each other."""
    held: dict[str, Counter[tuple[Any, ...]]] = {name: Counter() for name in NAMES}
    at: dict[str, int] = {}
    for change in told:
        assert change.kind == ("changes" if change.view in at else "snapshot")
        assert change.from_epoch == at.get(change.view, 0)
        at[change.view] = change.to_epoch
        *columns, weights = (column.to_pylist() for column in change.rows.columns)
        for *row, weight in zip(*columns, weights, strict=True):
            held[change.view][tuple(v if v is None or isinstance(v, str) else int(v) for v in row)] += weight
    return {name: +rows for name, rows in held.items()}


@pytest.mark.slow
def test_a_stream_does_not_notice_that_the_runtime_is_killed(tmp_path: Path) -> None:
    told: list[Change] = []
    failures: list[BaseException] = []

    def follow(stream: ChangeStream) -> None:
        try:
            told.extend(stream)
        except BaseException as error:  # noqa: BLE001 (raised below)
            failures.append(error)

    with exchange(tmp_path / "exchange", *REPLAY, "--speed", "max") as market:
        with started(tmp_path, market) as engine:
            port = engine.ready().ports["http"]
            stream = connect(f"127.0.0.1:{port}").changes(NAMES)
            follower = threading.Thread(target=follow, args=(stream,), daemon=True)
            follower.start()
            engine.wait_for_file(lambda: len(told) > len(NAMES))
            engine.kill()
        with started(tmp_path, market, "--http-port", str(port)) as engine:
            market.figures(lambda _: "ended at line" in market.errors(), "the end of the replay")
            newest = feed_position(market.ready().ports["text"])
            engine.wait_for("messages", newest)
            rows = Results(engine).covering(NAMES, newest).rows
            engine.wait_for_file(lambda: bool(failures) or added_up(list(told)) == rows)
            stream.close()
            engine.stop()
        follower.join(60)
    assert not failures
    assert added_up(told) == rows
    assert stream.connected >= 2
