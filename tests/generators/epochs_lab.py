"""Hub whose express lane and epochs a test advances by hand, over an epoch log and a result log on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from twisted.internet.defer import Deferred

from deltabook.wire.results import Frame, FrameDecoder
from runtime.compiler import Column, NamedSelect, Program, Relation, compile_program, decode_program, encode_program
from runtime.engine.express import ANEW, Update
from runtime.epochs import Cut, EpochLog, EpochLogReader, Footer, ResultLog
from runtime.plan import lane_program
from runtime.service.results.hub import Hub, HubConfig
from runtime.service.subscriptions import Epochs, History, Listener, Message, Past, Start, Subscription, arrow_frame

__all__ = ["RELATION", "Connection", "EpochsLab", "select"]

RELATION = Relation("r", (Column("a", "int64"), Column("b", "int64")))


def select(name: str, lane: Any = "express") -> NamedSelect:
    """Return a view of one column, ``a``."""
    return NamedSelect(name, "SELECT a FROM r", lane=lane)


class Connection(Listener):
    """Subscriber that records the messages written to it, as frames."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.is_finished = False
        self.subscription: Subscription | None = None
        self.stops_after = 0
        """Number of frames after which the connection is full; 0: never."""
        self.heartbeats = 0
        """Number of heartbeats so far."""
        self._decoder = FrameDecoder()
        self._written = 0

    def write(self, message: Message) -> None:
        self.data += message.encoded(arrow_frame)
        self.heartbeats += message.header.kind == "heartbeat"
        self._written += 1
        if self.stops_after and self._written % self.stops_after == 0 and self.subscription is not None:
            self.subscription.pause()

    def flush(self) -> None:
        """Do nothing."""

    def finish(self) -> None:
        self.is_finished = True

    def frames(self) -> list[Frame]:
        """Return the frames since the last call, without heartbeats."""
        found = [frame for frame in self._decoder.feed(bytes(self.data)) if frame.header.kind != "heartbeat"]
        self.data.clear()
        return found

    def seen(self) -> list[tuple[str, str, int, int]]:
        """Return kind, view and epochs of the frames since the last call."""
        return [(f.header.kind, f.header.view, f.header.from_epoch, f.header.to_epoch) for f in self.frames()]


class EpochsLab:
    """One process of a runtime; another `EpochsLab` on the same directory continues after its last epoch."""

    def __init__(
        self,
        directory: Path,
        selects: Sequence[NamedSelect] = (select("one"),),
        rows: Mapping[str, Mapping[int, int]] | None = None,
        **config: Any,
    ) -> None:
        """Open the logs; ``rows`` are the rows of views of the express lane, if the log has lost its beginning."""
        self.directory = directory
        self.log = EpochLog(directory / "epochs")
        self.results = ResultLog(directory / "results")
        self.reads: list[tuple[Callable[[], Past], Deferred[Past]]] = []
        """Pending reads of the history, executed by `read`."""
        self.reads_at_once = True
        if self.log.latest() < 0:
            self.program = compile_program(selects, [RELATION])
            self._seal({}, control=encode_program(self.program))
        else:
            self.program = self._newest_program()
        reader = EpochLogReader(directory / "epochs")
        epochs = Epochs(reader.identity(), History(directory / "epochs", self.results), self._in_thread)
        self.hub = Hub(self._begun_with(), lambda: 99, HubConfig(**config), epochs)
        for segment in self.results.read_all():
            self.hub.restore(segment)
        self.rows: dict[str, dict[int, int]] = {}
        """View of the express lane → value → multiplicity."""
        self._open: dict[str, dict[int, int]] = {}
        self._closed: dict[str, dict[int, int]] = {}
        self._step = 0
        held = {
            view.name: dict(rows[view.name]) if rows else self._held(view.name)
            for view in lane_program(self.program, "express").views
        }
        tables = {name: table(rows) for name, rows in held.items()}
        self.rows = held
        self.hub.begin_lane(lane_program(self.program, "express"), tables, {}, self.epoch, self.cuts(self.epoch))

    @property
    def epoch(self) -> int:
        """Newest committed epoch."""
        return self.log.latest()

    @staticmethod
    def cuts(epoch: int) -> dict[str, Cut]:
        """Return the place where an epoch cuts the feed."""
        return {"feed": Cut("s", epoch * 10, 0)}

    def follow(
        self, *names: str, start: Mapping[str, int] | None = None, run: str = "", stops_after: int = 0
    ) -> Connection:
        """Return a new subscriber of epochs."""
        connection = Connection()
        connection.stops_after = stops_after
        connection.subscription = self.hub.subscribe(names, connection, Start(start or {}, run))
        assert connection.subscription is not None
        connection.subscription.catch_up()
        return connection

    def change(self, name: str, *values: int) -> None:
        """Publish a version of the express lane with changed rows: values are added, values below 0 removed."""
        changes: dict[int, int] = {}
        for value in values:
            changes[abs(value)] = changes.get(abs(value), 0) + (1 if value > 0 else -1)
        for held in (self.rows[name], self._open.setdefault(name, {})):
            for value, weight in changes.items():
                held[value] = held.get(value, 0) + weight
        self._publish({name: table(changes)})

    def close(self) -> None:
        """End the epoch without a commit."""
        self._closed, self._open = self._open, {}
        self._publish({}, closes=True)

    def commit(self, failed: Mapping[str, str] | None = None, anew: Sequence[str] = ()) -> int:
        """Commit the closed epoch, and notify the subscribers; return its number."""
        attributes = {f"failed/{name}": why for name, why in (failed or {}).items()} | {f"{ANEW}{n}": "" for n in anew}
        held = {f"view/{name}": table(rows) for name, rows in self._closed.items()}
        if anew:
            held = {f"view/{name}": table(self.rows[name]) for name in anew}
        self._closed = {}
        footer = self._seal(held, attributes=attributes)
        self.hub.commit(footer, batches_of(held))
        return footer.to_epoch

    def epoch_of(self, name: str, *values: int) -> int:
        """Make a change that is a whole epoch; return its number."""
        self.change(name, *values)
        self.close()
        return self.commit()

    def catalogue(self, program: Program, added: Mapping[str, Sequence[int]] | None = None) -> int:
        """Make an epoch with another catalogue; ``added`` are the rows of its new views. Return its number."""
        self.close()
        self._step += 1
        new = {name: dict.fromkeys(values, 1) for name, values in (added or {}).items()}
        self.rows = {
            v.name: new.get(v.name) or self.rows.get(v.name, {}) for v in lane_program(program, "express").views
        }
        changes = {name: table(rows) for name, rows in new.items()}
        at = self.epoch + 1
        part = lane_program(program, "express")
        self.hub.publish_update(Update(self._step, at, self.cuts(at), changes, {}, program=part, closes=True))
        self.program = program
        held = {f"view/{name}": table(rows) for name, rows in (self._closed | new).items()}
        self._closed = {}
        footer = self._seal(held, control=encode_program(program))
        self.hub.commit(footer, batches_of(held))
        return footer.to_epoch

    def spark(
        self, to_epoch: int, changes: Mapping[str, Sequence[int]], failed: Mapping[str, str] | None = None
    ) -> None:
        """Publish a version of the Spark lane."""
        begin = self.hub.version
        tables = {
            name: table({abs(value): 1 if value > 0 else -1 for value in values}) for name, values in changes.items()
        }
        footer = Footer(begin, to_epoch, cuts=self.cuts(to_epoch))
        self.results.publish(begin, to_epoch, {name: rows.to_batches() for name, rows in tables.items()}, footer)
        self.hub.publish(footer, tables, failed or {})

    def read(self) -> None:
        """Execute the pending reads of the history."""
        while self.reads:
            call, done = self.reads.pop(0)
            done.callback(call())

    def _in_thread(self, call: Callable[[], Past]) -> Deferred[Past]:
        done: Deferred[Past] = Deferred()
        if self.reads_at_once:
            done.callback(call())
        else:
            self.reads.append((call, done))
        return done

    def _publish(self, changes: Mapping[str, pa.Table], *, closes: bool = False) -> None:
        self._step += 1
        epoch = self.epoch + 1 if closes else self.epoch
        self.hub.publish_update(Update(self._step, epoch, self.cuts(self.epoch + 1), changes, {}, closes=closes))

    def _seal(
        self, sections: Mapping[str, pa.Table], control: bytes = b"", attributes: Mapping[str, str] | None = None
    ) -> Footer:
        epoch = self.log.latest() + 1
        footer = Footer(
            max(0, epoch - 1), epoch, cuts=self.cuts(epoch), time_ns=1000 + epoch, control=control,
            attributes=dict(attributes or {}),
        )  # fmt: skip
        self.log.publish(self.log.prepare(footer, batches_of(sections)))
        return footer

    def _held(self, name: str) -> dict[int, int]:
        rows: dict[int, int] = {}
        for epoch in range(self.log.first(), self.epoch + 1):
            if (found := self.log.read(epoch).rows(f"view/{name}")) is not None:
                for value, weight in zip(found["a"].to_pylist(), found["weight"].to_pylist(), strict=True):
                    rows[value] = rows.get(value, 0) + weight
        return {value: weight for value, weight in rows.items() if weight}

    def _newest_program(self) -> Program:
        return decode_program(self.log.control_before(self.epoch))

    def _begun_with(self) -> Program:
        return decode_program(self.log.control(0))


def batches_of(sections: Mapping[str, pa.Table]) -> dict[str, list[pa.RecordBatch]]:
    """Return the rows of sections; leave out empty ones."""
    return {name: rows.to_batches() for name, rows in sections.items() if rows.num_rows}


def table(rows: Mapping[int, int]) -> pa.Table:
    """Return values with their weights as a table."""
    held = {value: weight for value, weight in rows.items() if weight}
    return pa.table({"a": pa.array(list(held), pa.int64()), "weight": pa.array(list(held.values()), pa.int64())})
