"""Row 41 of docs/features/exchange.md: the flow of the benchmark has a known outcome, and its peers are pinned."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.exchange.benchmark import books
from bench.exchange.book import run_book
from bench.exchange.flow import CANCEL, CROSS, make_flow


@pytest.mark.parametrize("encoder", list(books()))
def test_row_41_the_timed_book_ends_with_its_orders(encoder: str) -> None:
    flow = make_flow(3_000, 300)
    assert {CANCEL, CROSS} < {kind for kind, *_ in flow.requests}
    assert run_book(books()[encoder](), *flow) > 0


def test_row_41_peers_are_pinned() -> None:
    lines = (Path(__file__).parents[3] / "bench" / "exchange" / "peers.txt").read_text("utf-8").splitlines()
    wanted = [line for line in lines if not line.startswith("#")]
    assert len(wanted) >= 4
    assert all(line.count("==") == 1 for line in wanted)
