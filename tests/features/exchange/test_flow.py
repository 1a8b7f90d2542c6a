"""Rows 29 to 31 of docs/features/exchange.md: recorded files at any speed, among live orders, and seeded agents."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from deltabook.wire.itch import encode_message, frame
from deltabook.wire.symbols import Instrument
from exchange_server.agents import PRESETS
from exchange_server.config import DEFAULT_INSTRUMENTS
from exchange_server.errors import OperationError
from exchange_server.matching.inputs import AnyInput, Enter, MarketRules, OpenAccount, Replace, ReplayMode
from exchange_server.replay import ItchLoader
from tests.generators.flow_run import FlowRun
from tests.generators.recordings import FORMATS, Event, write_recording

START_S = 34_200
AGENTS = MarketRules(instruments=DEFAULT_INSTRUMENTS)

DAY = [
    Event(START_S, "B", 1, 500, 10_000),
    Event(START_S + 1, "S", 2, 300, 10_100, side="S"),
    Event(START_S + 2, "B", 3, 200, 10_000),
    Event(START_S + 4, "E", 2, 100, 10_100, left=200, side="S"),
    Event(START_S + 8, "D", 3, 200, 10_000),
    Event(START_S + 9, "E", 2, 200, 10_100, left=0, side="S"),
    Event(START_S + 10, "S", 4, 50, 10_200, side="S"),
]


def rules(mode: ReplayMode, *symbols: str) -> MarketRules:
    names = symbols or ("PAST",)
    return MarketRules(
        instruments=tuple(Instrument(name) for name in (*names, "ACME")), replay_symbols=names, replay_mode=mode,
        first_order_id=10**17 if mode == "as-recorded" else 1,
    )  # fmt: skip


def life(path: Path, mode: ReplayMode, speed: float | None, *symbols: str) -> FlowRun:
    return FlowRun(path, rules(mode, *symbols), anchor_ns=1, speed=speed or 1.0, running=False)


def messages(feed: bytes) -> list[str]:
    """Action, order, volume and price of each line of the feed."""
    fields = [line.split(",") for line in feed.decode().splitlines()]
    return [f"{f[4]} {f[2]} {f[5]}@{f[6]}" for f in fields]


def pump_to_end(run: FlowRun, player: object, step_s: float) -> None:
    for _ in range(1000):
        if getattr(player, "finished", True):
            return
        run.clock.advance(step_s)
    raise AssertionError("the file did not end")


@pytest.mark.parametrize("form", FORMATS)
def test_row_29_replay_as_recorded_shows_what_the_file_says(tmp_path: Path, form: str) -> None:
    run = life(tmp_path / "journal", "as-recorded", None)
    loader = write_recording(form, tmp_path, DAY)
    run.play_out(loader)
    assert loader.errors == 0
    shown = messages(run.close())
    if form == "bitstamp":  # its `changed` says what remains, not what was traded
        assert shown == ["B 1 500@10000", "S 2 300@10100", "B 3 200@10000", "X 2 100@10100", "D 3 200@10000",
                         "D 2 200@10100", "S 4 50@10200"]  # fmt: skip
    else:
        assert shown == ["B 1 500@10000", "S 2 300@10100", "B 3 200@10000", "E 2 100@10100", "D 3 200@10000",
                         "F 2 200@10100", "S 4 50@10200"]  # fmt: skip


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("mode", ["as-recorded", "as-orders"])
def test_row_29_replay_is_the_same_at_every_speed(tmp_path: Path, form: str, mode: ReplayMode) -> None:
    loader = write_recording(form, tmp_path, DAY)
    first_ns = next(loader.records()).time_ns

    def play(name: str, speed: float | None, *, disturbed: bool = False) -> tuple[bytes, list[AnyInput], str]:
        run = FlowRun(tmp_path / name, rules(mode), anchor_ns=first_ns, speed=speed or 1.0, running=False)
        player = run.play(loader, speed)
        if disturbed:
            run.clock.pump([0.0, 0.5, 1.0])
            player.pause()
            run.clock.pump([1.0] * 10)
            player.set_speed(3.0)
            player.seek_time(first_ns + 5 * 10**9)
            run.clock.pump([0.1] * 3)
            player.resume()
        pump_to_end(run, player, 0.3)
        digest = run.market.state_hash()
        return run.close(), run.inputs(), digest

    whole = play("full", None)
    assert whole[0].count(b"\n") >= 6
    assert play("slow", 0.5) == play("real", 1.0) == play("fast", 1000.0) == play("mixed", 1.0, disturbed=True) == whole


@pytest.mark.parametrize("form", FORMATS)
def test_row_29_replay_keeps_to_its_speed(tmp_path: Path, form: str) -> None:
    loader = write_recording(form, tmp_path, DAY)
    first_ns = next(loader.records()).time_ns
    run = FlowRun(tmp_path / "journal", rules("as-recorded"), anchor_ns=first_ns, speed=4.0, running=False)
    player = run.play(loader, 4.0)
    run.clock.pump([0.0, *[0.125] * 8])
    assert run.market.now.time_ns == first_ns + 4 * 10**9
    player.pause()
    run.clock.pump([1.0] * 20)
    assert run.market.now.time_ns == first_ns + 4 * 10**9
    player.resume()
    run.clock.pump([0.0, *[0.125] * 8])
    assert run.market.now.time_ns == first_ns + 8 * 10**9
    with pytest.raises(OperationError, match="a replay only goes forward"):
        player.seek(1)
    run.close()


@pytest.mark.parametrize("form", FORMATS)
def test_row_29_replay_goes_on_where_it_was_after_a_restart(tmp_path: Path, form: str) -> None:
    loader = write_recording(form, tmp_path, DAY)
    whole = life(tmp_path / "whole", "as-orders", None)
    whole.play_out(loader)
    first_ns = next(loader.records()).time_ns
    for seconds in range(11):
        path = tmp_path / f"cut{seconds}"
        run = FlowRun(path, rules("as-orders"), anchor_ns=first_ns, speed=1.0, running=False)
        run.play(loader, 1.0)
        run.clock.pump([0.0, *[1.0] * seconds])
        run.exchange.close()
        again = FlowRun(path, rules("as-orders"), anchor_ns=first_ns, speed=1.0, running=False)
        again.play_out(loader)
        assert again.market.state_hash() == whole.market.state_hash()
        again.exchange.close()
    whole.exchange.close()


def itch_file(path: Path, stocks: Iterable[str]) -> Path:
    """Two orders of each stock; the second replaces the first, and is executed in part."""
    file = path / "day.itch"
    data = []
    for locate, stock in enumerate(stocks, 1):
        first, second = 10 * locate, 10 * locate + 1
        same = {"stock_locate": locate, "timestamp": START_S * 10**9}
        data += [
            encode_message(
                "F", **same, order_reference_number=first, buy_sell_indicator="S", shares=100, stock=stock,
                price=10_000, attribution="GSCO",
            ),
            encode_message(
                "U", **same, order_reference_number=first, new_order_reference_number=second, shares=80, price=10_100
            ),
            encode_message("E", **same, order_reference_number=second, executed_shares=30, match_number=locate),
            encode_message(
                "P", **same, order_reference_number=0, buy_sell_indicator="B", shares=7, stock=stock, price=10_050,
                match_number=locate,
            ),
        ]  # fmt: skip
    file.write_bytes(b"".join(map(frame, data)))
    return file


def test_row_29_an_itch_file_plays_several_stocks(tmp_path: Path) -> None:
    file = itch_file(tmp_path, ["AAA", "BBB", "CCC"])
    run = life(tmp_path / "journal", "as-recorded", None, "AAA", "CCC")
    run.play_out(ItchLoader(file, ["AAA", "CCC"]))
    lines = [line.split(",") for line in run.close().decode().splitlines()]
    assert [f"{f[4]} {f[2]} {f[5]}@{f[6]} {f[7]}" for f in lines if f[7] == "AAA"] == [
        "S 10 100@10000 AAA", "D 10 100@10000 AAA", "S 11 80@10100 AAA", "E 11 30@10100 AAA", "T 0 7@10050 AAA",
    ]  # fmt: skip
    assert {f[7] for f in lines} == {"AAA", "CCC"}
    assert {f[3] for f in lines if f[4] in {"S", "E"}} == {"326680"}, "a replaced order is still its broker's"
    orders = life(tmp_path / "orders", "as-orders", None, "BBB")
    orders.play_out(ItchLoader(file, ["BBB"]))
    assert [(o.price_ticks, o.volume, o.broker_id) for o in orders.market.books["BBB"].orders.values()] == [
        (10_100, 50, 326_680)
    ]
    orders.close()


@pytest.mark.parametrize("form", FORMATS)
def test_row_30_live_orders_trade_with_replayed_orders(tmp_path: Path, form: str) -> None:
    loader = write_recording(form, tmp_path, DAY)
    first_ns = next(loader.records()).time_ns
    run = FlowRun(tmp_path / "journal", rules("as-orders"), anchor_ns=first_ns, speed=1.0, running=False)
    run.play(loader, 1.0)
    run.clock.pump([0.0, 1.5])
    exchange = run.exchange
    exchange.submit([OpenAccount(exchange.next_time_ns(), "text:7", "text", 7)])
    taken = exchange.submit([Enter(exchange.next_time_ns(), 1, 7, 1, "PAST", "B", 250, 10_100)])
    assert taken == [0], "all of it was executed against the recorded order"
    resting = exchange.submit([Enter(exchange.next_time_ns(), 1, 7, 2, "PAST", "B", 10, 10_050)])
    run.clock.pump([0.5] * 30)
    book = run.market.books["PAST"]
    assert book.orders[resting[0]].volume == 10, "the recording's later orders do not reach it"  # type: ignore[index]
    assert book.best("S") == 10_200
    lines = [line for line in messages(run.close()) if line.split()[0] in "EF"]
    # 250 lots of the recorded offer were the live order's; of its executions 50 lots were left to be executed.
    assert lines[0].split()[2] == "250@10100"
    own = (tmp_path / "journal" / "private").rglob("*")
    assert any(b",7,F,250,10100,PAST," in file.read_bytes() for file in own if file.is_file())


@pytest.mark.parametrize("form", FORMATS)
def test_row_30_a_recorded_execution_meets_live_orders_first(tmp_path: Path, form: str) -> None:
    loader = write_recording(form, tmp_path, DAY)
    first_ns = next(loader.records()).time_ns
    run = FlowRun(tmp_path / "journal", rules("as-orders"), anchor_ns=first_ns, speed=1.0, running=False)
    run.play(loader, 1.0)
    run.clock.pump([0.0, 3.0])
    exchange, book = run.exchange, run.market.books["PAST"]
    exchange.submit([OpenAccount(exchange.next_time_ns(), "text:7", "text", 7)])
    (live_id,) = exchange.submit([Enter(exchange.next_time_ns(), 1, 7, 1, "PAST", "S", 100, 10_050)])
    run.clock.pump([1.5])
    left = {order.price_ticks: order.volume for order in book.orders.values() if order.side == "S"}
    # Bitstamp's records say what is left of an order, and nothing of who took it.
    assert left == ({10_100: 200, 10_050: 100} if form == "bitstamp" else {10_100: 200})
    assert (live_id in book.orders) == (form == "bitstamp")
    run.close()


@pytest.mark.parametrize("form", FORMATS)
def test_row_30_a_recorded_order_trades_on_entry(tmp_path: Path, form: str) -> None:
    loader = write_recording(form, tmp_path, DAY)
    first_ns = next(loader.records()).time_ns
    run = FlowRun(tmp_path / "journal", rules("as-orders"), anchor_ns=first_ns, speed=1.0, running=False)
    run.play(loader, 1.0)
    run.clock.pump([0.0, 9.5])
    exchange, book = run.exchange, run.market.books["PAST"]
    exchange.submit([OpenAccount(exchange.next_time_ns(), "text:7", "text", 7)])
    (live_id,) = exchange.submit([Enter(exchange.next_time_ns(), 1, 7, 1, "PAST", "B", 80, 10_250)])
    assert isinstance(live_id, int)
    run.clock.pump([1.0])
    assert book.orders[live_id].volume == 30, "50 lots were offered at less"
    assert book.best("S") is None
    run.close()


def test_row_30_as_recorded_symbols_take_no_live_orders(tmp_path: Path) -> None:
    run = life(tmp_path / "journal", "as-recorded", None)
    run.play_out(write_recording("lobster", tmp_path, DAY))
    exchange = run.exchange
    exchange.submit([OpenAccount(exchange.next_time_ns(), "text:7", "text", 7)])
    assert exchange.submit([Enter(exchange.next_time_ns(), 1, 7, 1, "PAST", "B", 1, 10_200)]) == [0]
    assert exchange.submit([Enter(exchange.next_time_ns(), 1, 7, 2, "ACME", "B", 1, 10_200)]) != [0]
    run.close()
    told = b"".join(f.read_bytes() for f in (tmp_path / "journal" / "private").rglob("*") if f.is_file())
    assert b",R,1,10200,PAST,1,replayed" in told


def test_row_30_agents_trade_beside_a_replay(tmp_path: Path) -> None:
    loader = write_recording("itch", tmp_path, DAY)
    first_ns = next(loader.records()).time_ns
    mixed = MarketRules(instruments=(*DEFAULT_INSTRUMENTS, Instrument("PAST")), replay_symbols=("PAST",))
    run = FlowRun(tmp_path / "journal", mixed, anchor_ns=first_ns, speed=10.0, running=False)
    run.play(loader, 10.0)
    run.agents()
    run.clock.pump([0.01] * 150)
    symbols = {line.split(b",")[7].decode() for line in run.close().splitlines()}
    assert symbols == {"ACME", "GLOBEX", "INITECH", "PAST"}


def agent_life(path: Path, seed: int, preset: str = "lively", seconds: int = 3) -> tuple[bytes, list[AnyInput], str]:
    run = FlowRun(path, AGENTS)
    run.agents(seed, PRESETS[preset])
    run.clock.pump([0.01] * (seconds * 100))
    digest = run.market.state_hash()
    return run.close(), run.inputs(), digest


@pytest.mark.parametrize("preset", PRESETS)
def test_row_31_agents_follow_from_their_seed(tmp_path: Path, preset: str) -> None:
    first = agent_life(tmp_path / "a", 1, preset)
    assert first == agent_life(tmp_path / "b", 1, preset)
    other = agent_life(tmp_path / "c", 2, preset)
    assert all(one != another for one, another in zip(first, other, strict=True))
    assert len(first[0].splitlines()) > 3_000


def test_row_31_agents_follow_from_their_seed_over_restarts(tmp_path: Path) -> None:
    for name in ("a", "b"):
        agent_life(tmp_path / name, 1, seconds=1)
    assert agent_life(tmp_path / "a", 1, seconds=2) == agent_life(tmp_path / "b", 1, seconds=2)


def test_row_31_agents_take_their_orders_over_at_a_restart(tmp_path: Path) -> None:
    live = []
    for _ in range(4):
        run = FlowRun(tmp_path, AGENTS)
        run.agents(1)
        run.clock.pump([0.01] * 200)
        live.append(run.market.live_orders)
        run.close()
    assert max(live) < 2 * live[0], "orders of earlier lives were left to themselves"


def test_row_31_agents_of_every_kind_trade(tmp_path: Path) -> None:
    run = FlowRun(tmp_path, AGENTS)
    flow = run.agents()
    run.clock.pump([0.01] * 1_500)
    brokers = {broker for _, trader in flow.populations[0]._turns for broker in trader.brokers}
    kinds = {trader.__class__.__name__ for _, trader in flow.populations[0]._turns}
    run.close()
    seen = {item.broker_id for item in run.inputs() if isinstance(item, Enter | Replace)}
    assert kinds == {"Noise", "Maker", "Momentum", "Informed", "Large"}
    assert seen == brokers
