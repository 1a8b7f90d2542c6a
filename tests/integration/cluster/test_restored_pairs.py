"""One part of a system comes back from an old backup: the others notice, and nothing goes wrong in silence."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from deltabook.audit import audit
from deltabook.backup import back_up, restore
from queries import query_path
from tests.integration._oracle import Replayed
from tests.integration._processes import Results, Running, exchange, feed, feed_position
from tests.integration.algo_process import FakeResults, private_stream, trades
from tests.integration.test_algo_recovery import FEES, algo, live, position
from tests.integration.test_algo_recovery import exchange as quiet_exchange
from tests.integration.test_runtime_recovery import held_rows

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(300)]


def put_back(backup: Path, directory: Path) -> None:
    """In place of what is there."""
    shutil.rmtree(directory)
    restore(backup, directory)


def runtime(directory: Path, port: int) -> Running:
    where = ["--feed", f"127.0.0.1:{port}", "--dir", str(directory), "--express", str(query_path("best_quote"))]
    return Running("runtime", *where, "--no-spark", "--status-interval", "0.1")


def test_an_older_runtime_reads_again_what_it_lacks(tmp_path: Path) -> None:
    held = tmp_path / "runtime"
    with exchange(tmp_path / "exchange") as market:
        port = market.ready().ports["text"]
        with runtime(held, port) as engine:
            engine.wait_for("feed_sequence", 1000)
            back_up(held, tmp_path / "old.tar")
            engine.wait_for("feed_sequence", int(engine.figures()["feed_sequence"]) + 2000)
            engine.stop()
        put_back(tmp_path / "old.tar", held)
        with runtime(held, port) as engine:
            engine.ready()
            engine.wait_for("feed_sequence", feed_position(port))
            engine.stop()
        market.interrupt()
    with exchange(tmp_path / "exchange", "--agents", "none") as market:
        port = market.ready().ports["text"]
        with runtime(held, port) as engine:
            newest = feed_position(port)
            found = Results(engine).covering(["best_quote"], newest)
            engine.stop()
        told = feed(port, newest)
    replayed = Replayed().feed(told)
    assert found.rows == replayed.answers([query_path("best_quote")])
    assert held_rows(held, "bids") == Counter(replayed.relation("B"))


def test_an_older_exchange_is_refused_by_a_runtime(tmp_path: Path) -> None:
    with exchange(tmp_path / "exchange") as market:
        port = market.ready().ports["text"]
        with runtime(tmp_path / "runtime", port) as engine:
            engine.wait_for("feed_sequence", 1000)
            back_up(tmp_path / "exchange", tmp_path / "old.tar")
            engine.wait_for("feed_sequence", feed_position(port) + 2000)
            engine.stop()
        market.interrupt()
    put_back(tmp_path / "old.tar", tmp_path / "exchange")
    with (
        exchange(tmp_path / "exchange", "--agents", "none") as market,
        runtime(tmp_path / "runtime", market.ready().ports["text"]) as engine,
    ):
        said = engine.fails()
    assert "was refused (sequence): expected a sequence up to" in said.splitlines()[-1]


@pytest.mark.parametrize("policy", ["cancel", "adopt"])
def test_restored_strategies_get_answers_to_forgotten_orders(tmp_path: Path, policy: str) -> None:
    # Behind an fsync that follows the sending, a power loss may take requests: then the audit expects none of them.
    fsync = ("--order-fsync", "before")
    with FakeResults() as results, quiet_exchange(tmp_path) as market:
        port = market.ready().ports["text"]
        with algo(tmp_path, results, port, *fsync) as engine:
            engine.wait_for("orders_sent", 40)
            back_up(tmp_path / "algo", tmp_path / "old.tar")
            engine.wait_for("orders_sent", int(engine.wait_for("orders_sent", 40)["orders_sent"]) + 60)
        assert live(private_stream(port, 9001)), "it was killed with orders in the market"
        put_back(tmp_path / "old.tar", tmp_path / "algo")
        with algo(tmp_path, results, port, "--on-restart", policy, *fsync) as engine:
            engine.wait_for("orders_sent", 150)
            figures = engine.stop()
        told = private_stream(port, 9001)
    fills = [message.sequence for message in told if message.action in {"E", "F"}]
    assert [int(trade["sequence"]) for trade in trades(tmp_path / "algo")] == fills
    assert (figures["fills"], figures["position_lots"]) == (len(fills), position(told))
    assert figures["orders_open"] == len(live(told)) == 0
    assert set(Counter(m.client_id for m in told if m.action == "A").values()) == {1}, "no number was used again"
    (found,) = audit(tmp_path / "algo", tmp_path / "exchange", FEES).strategies
    reasons = {problem.partition(": ")[2] for problem in found.problems if not problem.endswith("more")}
    assert reasons == {"expected a request in the journal, was none"}, "that it has forgotten them stays to be seen"


def test_an_older_exchange_is_refused_by_strategies(tmp_path: Path) -> None:
    with FakeResults() as results:
        with quiet_exchange(tmp_path) as market:
            port = market.ready().ports["text"]
            with algo(tmp_path, results, port) as engine:
                engine.wait_for("orders_sent", 20)
                back_up(tmp_path / "exchange", tmp_path / "old.tar")
                engine.wait_for("orders_sent", 100)
                engine.stop()
            market.stop()
        put_back(tmp_path / "old.tar", tmp_path / "exchange")
        with quiet_exchange(tmp_path) as market, algo(tmp_path, results, market.ready().ports["text"]) as engine:
            said = engine.fails()
    assert "expected a sequence up to" in said.splitlines()[-1]
    assert not audit(tmp_path / "algo", tmp_path / "exchange", FEES).agrees
