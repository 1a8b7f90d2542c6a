"""Run directories with a file of every kind, faults of files, and the answers of each directory after a start.

The directories are made once, by the production code, and copied for each fault.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from twisted.internet.task import Clock

from algo_engine.desk.desk import Desk
from algo_engine.desk.journal import JOURNAL, FileJournal
from algo_engine.desk.risk import RiskGate
from algo_engine.desk.trade_recovery import open_spool
from algo_engine.desk.trades import SPOOL, read_trades
from algo_engine.views.quotes import Quotes
from deltabook.wire.directories import this_process
from deltabook.wire.symbols import Instrument
from deltabook.wire.text import Accepted, parse_response
from exchange_server.journal.streams import private_name
from exchange_server.matching.inputs import MarketRules
from exchange_server.text.protocol import account_name
from runtime.engine.ingest import EpochWriter
from runtime.epochs import DirectoryClaim, EpochLogReader, Footer, ResultLog
from runtime.formats import DeadLetter
from runtime.upstreams import Beat, Consumer, Consumers, write_beat
from tests.generators.audit_floor import DESKS, FEES, SYMBOLS, AuditFloor
from tests.generators.journals import account, enter, open_exchange
from tests.generators.order_lab import LIMITS
from tests.generators.run_directories import RunDirectory, held_rows

__all__ = ["ANSWERS", "FAULTS", "RULES", "make_runs", "rows_at"]

RULES: Final = MarketRules(instruments=tuple(map(Instrument, SYMBOLS)))
_BLOCK_BYTES: Final = 512


def _flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]


def _zero_block(data: bytes) -> bytes:
    size = min(_BLOCK_BYTES, max(1, len(data) // 3))
    begin = (len(data) - size) // 2
    return data[:begin] + bytes(size) + data[begin + size :]


FAULTS: Final[Mapping[str, Callable[[bytes], bytes] | None]] = {
    "flip": _flip,
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "delete": None,
    "zero block": _zero_block,
    "append": lambda data: data + b"nothing that was ever written\n",
}
"""Change of a file's bytes for each fault; None: the file is removed."""


def make_runs(path: Path) -> None:
    """Make the run directories.

    They belong to an exchange, to strategies that have traded with it, and to a runtime, each after a clean stop. Two
    more directories belong to an exchange that has removed its oldest requests, and to a runtime that was killed.
    """
    floor = AuditFloor(path, seed=3, compact_bytes=4_000)
    floor.desks["second"]._state._compact_at_bytes = 1 << 30  # its journal drops nothing
    for _ in range(2):
        floor.trade(60)
        floor.exchange.snapshot()
    floor.trade(25)
    floor.close()
    exchange = open_exchange(path / "short", RULES, keep=2)
    exchange.submit([account()])
    for number in range(1, 161):
        exchange.submit([enter(number, "BS"[number % 2], 100 + number % 3)])
        if number % 40 == 0:
            exchange.snapshot()
    exchange.close()
    _make_runtime(path / "runtime", path / "killed")


def _make_runtime(path: Path, killed: Path) -> None:
    run = RunDirectory(path, epochs=3)
    run.writer.set_aside((DeadLetter(0, 1, 2, 3, "a", "int64", "no number", b"x,y"),), 1)
    for _ in range(3):
        run.seal()
    _keep(run)
    run.keep_small()
    for _ in range(2):
        for _ in range(4):
            run.seal()
        _keep(run)
    for _ in range(3):
        run.seal()
    DirectoryClaim(path, this_process()).begin(0)
    (path / "lock").write_bytes(this_process().encoded())
    write_beat(path, Beat(1, run.writer.epoch, 7, True, False))
    Consumers(path).put(Consumer("18c3f2a9", "/somewhere", "host", "up", run.writer.epoch))
    shutil.copytree(path, killed)
    run.close()


def _keep(run: RunDirectory) -> None:
    """Take a snapshot, and write a full result."""
    epoch = run.writer.epoch
    run.snapshots.take(run.writer.log, epoch)
    rows = +run.at[epoch]
    table = {"a": pa.array(list(rows), pa.int64()), "weight": pa.array(list(rows.values()), pa.int64())}
    run.results.put_full({"v": [pa.record_batch(table)]}, Footer(0, epoch))


def _exchange(directory: Path) -> Any:
    """Return the data that an exchange serves after a start: every message, and the state."""
    exchange = open_exchange(directory, RULES)
    try:
        streams = {form: stream.records for form, stream in exchange.feeds.items()}
        for account in exchange.market.accounts[1:]:
            streams[account.name] = exchange.stream(account).records
        return exchange.market.state_hash(), exchange.inputs, {
            name: (records.next_number, records.read(0, 1 << 24)) for name, records in streams.items()
        }  # fmt: skip
    finally:
        exchange.close()


def _algo(directory: Path) -> Any:
    """Return the state of strategies after a start, when the exchange has resent all missed messages."""
    return {name: _strategy(directory, name, broker) for name, broker in DESKS.items()}


def _strategy(directory: Path, name: str, broker: int) -> Any:
    folder, clock = directory / name, Clock()
    journal = FileJournal(folder / JOURNAL)
    try:
        spool, _ = open_spool(folder, name, broker)
        gate = RiskGate(LIMITS, lambda: 0)
        desk = Desk(
            broker_id=broker, journal=journal, spool=spool, gate=gate, quotes=Quotes(), clock=clock,
            listener=lambda event: None, on_failure=_raise, fees=FEES,
        )  # fmt: skip
        desk.opened(Accepted("SESSION1", desk.blotter.sequence + 1, 0), lambda data: None)
        for line in (
            (directory.parent / "exchange" / private_name(account_name(broker), "text")).read_bytes().splitlines(True)
        ):
            response = parse_response(line)
            if response.sequence > desk.blotter.sequence:
                desk.receive(response)
        spool.begin_sync()()
    finally:
        journal.release()
    trades = list(read_trades([folder / SPOOL]))
    orders = {order.order_id: order.remaining_lots for order in desk.blotter.open_orders() if order.order_id}
    return msgspec.to_builtins(desk.portfolio.holdings), desk.blotter.fills, orders, trades


def _raise(error: Exception) -> None:
    raise error


def _runtime(directory: Path) -> Any:
    """Return the state with which a runtime continues; read every available epoch and result."""
    epoch, rows, count = held_rows(directory)
    writer = EpochWriter(directory, lambda: 8, lambda footer: None)
    try:
        control = writer.control
    finally:
        writer.close()
    log, results = EpochLogReader(directory / "epochs"), ResultLog(directory / "results")
    for each in range(log.first(), epoch + 1):
        log.read(each).verify()
    published: Counter[int] = Counter()
    for segment in results.read_all():
        table = segment.rows("v")
        for a, weight in zip(*(column.to_pylist() for column in table.columns), strict=True) if table else ():
            published[a] += weight
    # Spark publishes missing results again; existing results must agree with the epochs.
    is_right = +published == rows_at(results.latest())
    Consumers(directory).list()
    return epoch, +rows, count, is_right, control


def rows_at(version: int) -> Counter[int]:
    """Return the rows of `RunDirectory` at a version."""
    gone = {epoch - 1 for epoch in range(1, version + 1) if epoch % 3 == 0}
    return Counter(set(range(1, version + 1)) - gone)


ANSWERS: Final[Mapping[str, Callable[[Path], Any]]] = {
    "algo": _algo,
    "exchange": _exchange,
    "killed": _runtime,
    "runtime": _runtime,
    "short": _exchange,
}
"""Function that returns the answers of a directory after a start, and raises an error that prevents the start."""
