# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""The status port answers what the strategies are, and refuses everything else in one line."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from twisted.internet.testing import StringTransport

from algo_engine.desk.fees import parse_fees
from algo_engine.desk.trades import trade_of
from algo_engine.status import AlgoMetrics, FillLog, Reports, status_site
from deltabook.wire.access import Access
from deltabook.wire.site import MOST_BODY_BYTES
from deltabook.wire.strategies import Fills, Killed, Orders, Strategies
from tests.unit.algo_engine.snapshots import snapshot
from tests.unit.algo_engine.test_engine import Rig

QUOTE = {"symbol": "ACME", "bid_price": 99, "bid_volume": 10, "ask_price": 101, "ask_volume": 10}


class _Transport(StringTransport):
    def getPeer(self) -> Any:
        from twisted.internet.address import IPv4Address

        return IPv4Address("TCP", "127.0.0.1", 1)


class Port:
    """A status port of a rig with one strategy, asked with bytes."""

    def __init__(self, token: str = "", kept: int = 100) -> None:
        self.rig = Rig()
        self.rig.lab.fees = parse_fees("taker=10000,maker=10000")
        self.rig.lab.desk._fees = self.rig.lab.fees
        self.fills = FillLog(kept)
        host = self.rig.host
        host.on_fill = lambda event: self.fills.add(trade_of(event, host.name, host.desk.broker_id))
        self.reports = Reports(self.rig.engine, self.fills, self.rig.lab.clock, lambda: 77)
        self.lost = {"exchange": 0, "runtime": 0}
        self.site = status_site(
            self.reports, AlgoMetrics(self.reports, lambda: self.lost, self.rig.stages, "loop-7"), Access(token)
        )

    def ask(self, path: str, method: str = "GET", body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        transport, protocol = _Transport(), self.site.buildProtocol(None)
        lines = {"host": "localhost", "content-length": str(len(body)), **headers}
        protocol.makeConnection(transport)
        said = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        protocol.dataReceived(said.encode() + b"\r\n" + body)
        head, _, content = transport.value().partition(b"\r\n\r\n")
        protocol.connectionLost(None)
        return int(head.split(b" ")[1]), content

    def status(self) -> Strategies:
        code, body = self.ask("/v1/strategies")
        assert code == 200
        return msgspec.json.decode(body, type=Strategies)

    def state(self) -> tuple[str, str]:
        line = self.status().strategies[0]
        return line.state, line.reason

    def traded(self) -> None:
        """10 lots bought at 100 in one trade, and an order for 5 that rests."""
        self.rig.started()
        self.rig.host.buy("ACME", 10, 100)
        self.rig.host.sell("ACME", 5, 101)
        self.rig.host.buy("ACME", 950, 100)
        self.rig.host.buy("ACME", 5000, 100)
        self.rig.lab.settle()
        self.rig.lab.exchange.fill(1, 10, 100)
        self.rig.lab.told()
        self.rig.lab.settle()


def test_every_figure_is_the_desks() -> None:
    port = Port()
    port.traded()
    status = port.status()
    line = status.strategies[0]
    assert (status.now_ns, status.last_fill, status.views_connected) == (77, 1, True)
    assert (line.name, line.broker_id, line.state, line.is_connected) == ("diary", 9001, "running", True)
    assert (line.orders_sent, line.orders_filled, line.orders_open) == (3, 1, 1)
    assert (line.orders_rejected, line.orders_refused, line.fills) == (1, 1, 1)
    assert (line.realised, line.unrealised, line.fees, line.profit) == (0, -10, 10, -20)
    position = line.positions[0]
    assert (position.symbol, position.position_lots, position.mark_ticks, position.fees) == ("ACME", 10, 99, 10)
    assert line.views == ("best_quote", "vwap_book")


def test_fills_are_those_above_a_number() -> None:
    port = Port(kept=2)
    port.traded()
    port.rig.lab.exchange.fill(2, 1, 101)
    port.rig.lab.exchange.fill(2, 2, 102)
    port.rig.lab.told()
    port.rig.lab.settle()

    def asked(query: str) -> list[tuple[int, str, int, int]]:
        code, body = port.ask(f"/v1/fills{query}")
        assert code == 200
        fills = msgspec.json.decode(body, type=Fills)
        assert (fills.last, fills.run) == (3, port.status().run)
        return [(fill.number, fill.side, fill.volume_lots, fill.price_ticks) for fill in fills.fills]

    assert asked("") == [(2, "S", 1, 101), (3, "S", 2, 102)], "the first is forgotten"
    assert asked("?after=2") == [(3, "S", 2, 102)]
    assert asked("?after=3") == asked("?after=99") == []


def test_orders_that_ended_come_before_those_that_may_trade() -> None:
    port = Port()
    port.traded()
    code, body = port.ask("/v1/orders?strategy=diary")
    orders = msgspec.json.decode(body, type=Orders).orders
    assert code == 200
    # A number is used by every order, also by one that is refused.
    assert [(o.client_id, o.status, o.filled_lots, o.reason.split(":")[0]) for o in orders] == [
        (4, "refused", 0, "order size"),
        (3, "rejected", 0, "too large"),
        (1, "filled", 10, ""),
        (2, "accepted", 0, ""),
    ]
    assert port.ask("/v1/orders")[1] == body


def test_the_kill_switch_stops_one_strategy_and_its_orders() -> None:
    port = Port()
    port.traded()
    code, body = port.ask("/v1/kill", "POST", b'{"strategies": ["diary"], "reason": "it is late"}')
    assert (code, msgspec.json.decode(body, type=Killed)) == (200, Killed(("diary",), 1))
    port.rig.lab.settle()
    assert not port.rig.lab.exchange.resting
    assert port.state() == ("killed", "it is late")
    port.rig.host.buy("ACME", 1, 100)
    assert port.status().strategies[0].orders_refused == 2


def test_nothing_is_killed_by_a_request_that_cannot_be() -> None:
    port = Port()
    port.rig.started()
    for body, code in [
        (b"x", 400),
        (b'{"strategy": "diary"}', 400),
        (b'{"strategies": ["diary", "nobody"]}', 404),
        (b" " * (MOST_BODY_BYTES + 1), 413),
    ]:
        assert port.ask("/v1/kill", "POST", body)[0] == code
    assert port.ask("/v1/kill")[0] == 405
    assert port.state() == ("running", "")
    assert port.ask("/v1/kill", "POST")[0] == 200
    assert port.state() == ("killed", "by hand")


@pytest.mark.parametrize(
    ("path", "method", "code", "said"),
    [
        ("/", "GET", 404, b"expected one of /v1/strategies"),
        ("/v1/strategies", "POST", 405, b"expected GET, was POST"),
        ("/v1/strategies?x=1", "GET", 400, b"expected no parameter, was x"),
        ("/v1/fills?after=-1", "GET", 400, b"expected a whole number as after"),
        ("/v1/fills?after=1&after=2", "GET", 400, b"expected after once"),
        ("/v1/fills?strategy=x", "GET", 400, b"expected after, was strategy"),
        ("/v1/orders?strategy=x", "GET", 404, b"expected a strategy out of diary, was x"),
    ],
)
def test_what_cannot_be_asked_is_one_line(path: str, method: str, code: int, said: bytes) -> None:
    answer, body = Port().ask(path, method)
    assert answer == code
    assert body.startswith(said)
    assert body.count(b"\n") == 1


def test_only_loopback_clients_or_the_token_are_admitted() -> None:
    assert Port().ask("/v1/strategies", origin="http://evil.example")[0] == 403
    assert Port().ask("/v1/strategies", host="evil.example")[0] == 403
    port = Port(token="0123456789abcdef")
    assert port.ask("/v1/kill", "POST")[0] == 401
    assert not port.rig.lab.desk.is_killed
    assert port.ask("/v1/strategies", authorization="Bearer 0123456789abcdef")[0] == 200


def test_states_and_why() -> None:
    port = Port()
    assert port.state() == ("waiting", "for the views best_quote, vwap_book")
    port.rig.views()
    assert port.state() == ("waiting", "for the exchange")
    port.rig.lab.settle()
    assert port.state() == ("running", "")
    port.rig.engine.views_lost()
    port.rig.lab.clock.advance(2)
    assert port.state()[0] == "suspended"
    assert not port.status().views_connected
    port.rig.views()
    assert port.state() == ("running", "")
    port.rig.strategy.raises_at = "vwap_book"
    port.rig.engine.frame(snapshot("vwap_book", epoch=2))
    assert port.state() == ("failed", "ZeroDivisionError: by mistake")
    other = Port()
    other.rig.started()
    other.rig.engine.stop()
    assert other.state() == ("stopped", "")


def test_parameters_are_json() -> None:
    port = Port()
    assert json.loads(port.ask("/v1/strategies")[1])["strategies"][0]["parameters"] == {}
