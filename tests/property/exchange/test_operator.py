"""Whatever an operator asks for, the market keeps its invariants, and its journal says all of it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from deltabook.wire import admin
from exchange_server.journal.history import History
from exchange_server.matching.inputs import Enter
from exchange_server.outputs import all_outputs
from tests.generators.operated import Operated
from tests.harness.examples import examples

SYMBOLS = st.sampled_from(["ACME", "GLOBEX", "", "NONE"])
ACCOUNTS = st.sampled_from(["text:7", "text:8", "", "ouch:X"])
PHASES = st.sampled_from(
    ["continuous", "auction-open", "auction-close", "auction-halt", "halted", "paused", "closed", "asleep"]
)
NUMBERS = st.integers(-2, 40) | st.sampled_from([2**63 - 1, 2**63, 2**70])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "symbol": SYMBOLS,
    "account": ACCOUNTS,
    "phase": PHASES,
    "reason": st.sampled_from(["", "NEWS", "longer"]),
    "killed": st.booleans(),
    "match_id": NUMBERS,
    "position": NUMBERS,
    "session": st.sampled_from(["text:?:0", "itch:?:0"]),
    "paused": st.booleans(),
    "speed": st.sampled_from([0, 1.5, -1]),
}
CHANGES = st.sampled_from(sorted(admin.CHANGES)).flatmap(
    lambda path: st.tuples(
        st.just(path),
        st.fixed_dictionaries(
            {}, optional={name: VALUES[name] for name in admin.CHANGES[path].__struct_fields__ if name in VALUES}
        ),
    )
)
ORDERS = st.tuples(st.sampled_from([7, 8]), st.sampled_from("BS"), st.integers(1, 9), st.integers(95, 105))


def trade(operated: Operated, traders: dict[int, Any], number: int, order: tuple[int, str, int, int]) -> None:
    """A client sends an order, with a connection of its own if the last one was cut."""
    broker, side, volume, price = order
    connection, wire = traders.get(broker, (None, None))
    if wire is None or wire.disconnecting:
        connection, wire = traders[broker] = operated.connect(f"0,{broker},,1")
    connection.dataReceived(f"{number},0,0,{broker},{side},{volume},{price},ACME\n".encode())
    operated.submit(Enter(0, 0, 4, 0, "GLOBEX", side, volume, price))


@settings(max_examples=examples(60))
@given(st.lists(CHANGES | ORDERS, max_size=40))
def test_every_command_is_done_or_refused_and_journalled(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        operated = Operated(Path(folder))
        traders: dict[int, Any] = {}
        for number, step in enumerate(steps, 1):
            if len(step) == 4:
                trade(operated, traders, number, step)
                continue
            path, change = step
            before = operated.exchange.inputs
            answer = operated.ask(path, "POST", json.dumps(change).encode())
            assert answer.status in {200, 400, 404, 409}, answer
            assert answer.status == 200 or operated.exchange.inputs == before
            operated.exchange.market._check()
        state_hash, inputs = operated.exchange.market.state_hash(), operated.exchange.inputs
        assert operated.failures == []
        operated.close()
        if inputs:
            found = History(Path(folder), all_outputs).now()
            assert (found.state_hash, found.inputs) == (state_hash, inputs)
