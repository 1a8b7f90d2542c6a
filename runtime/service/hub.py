"""The hub: every view's full result at the newest version, and who is told of changes.

A subscriber gets a snapshot of each of its views, then the changes. One whose connection is full is not sent changes
any more: when it drains it gets a new snapshot, which is what its missed changes add up to. So nothing grows with a
slow reader. The same happens to all of them while the owner holds the hub, because what it knows is stale: they hear
nothing, not even heartbeats, and whoever needs fresh views can tell from the silence.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import pyarrow as pa

from deltabook.wire.results import FrameHeader, encode_frame
from runtime.compiler.program import Program, View, decode_program
from runtime.epochs import Cut, Footer, Segment
from runtime.views.materialised import MaterialisedView

__all__ = ["Freshness", "Hub", "Listener", "Subscription"]


class Freshness:
    """How long the oldest epoch has waited to be published. `sealed` may be called from another thread."""

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._waiting: deque[tuple[int, float]] = deque()

    def sealed(self, epoch: int, now_s: float) -> None:
        """There is a new epoch."""
        self._waiting.append((epoch, now_s))

    def is_fresh(self, version: int, now_s: float) -> bool:
        """With this version published, no epoch waits too long."""
        while self._waiting and self._waiting[0][0] <= version:
            self._waiting.popleft()
        return not self._waiting or now_s - self._waiting[0][1] <= self._longest_s


class Listener(Protocol):
    """A connection to a subscriber."""

    def write(self, data: bytes) -> None:
        """Send bytes; never blocks."""

    def finish(self) -> None:
        """Close the connection behind what was sent."""


class Subscription:
    """One subscriber's views; belongs to the hub's thread."""

    def __init__(self, hub: Hub, names: Sequence[str], listener: Listener) -> None:
        self._hub = hub
        self._names = list(names)
        self._listener = listener
        self._full = False
        self._behind: set[str] = set(names)

    def pause(self) -> None:
        """The connection is full."""
        self._full = True

    def resume(self) -> None:
        """The connection has room again."""
        self._full = False
        self.catch_up()

    def catch_up(self) -> None:
        """Send a snapshot of every view that this subscriber has not got or has missed changes of."""
        for name in self._names:
            if name in self._behind and not self._full and not self._hub.is_held:
                self._behind.discard(name)
                self._listener.write(self._hub.snapshot_frame(name))

    def changed(self, frames: dict[str, bytes]) -> None:
        """Send a version's changes, encoded once for all subscribers."""
        for name in self._names:
            if name in frames:
                if self._full or self._hub.is_held or name in self._behind:
                    self._behind.add(name)
                else:
                    self._listener.write(frames[name])

    def dropped(self, name: str, frame: bytes) -> None:
        """A view is no more: say so, and close the connection when it was the last one."""
        if name in self._names:
            self._names.remove(name)
            self._behind.discard(name)
            self._listener.write(frame)
            if not self._names:
                self._hub.unsubscribe(self)
                self._listener.finish()

    def heartbeat(self, frame: bytes) -> None:
        """Say that the service lives."""
        if not self._full:
            self._listener.write(frame)


class Hub:
    """All views of the catalogue and their subscribers; on the reactor's thread."""

    def __init__(self, program: Program, now_ns: Callable[[], int], most_subscribers: int = 1000) -> None:
        self.program = Program((), (), ())
        """The catalogue at the version."""
        self.since: dict[str, int] = {}
        """View → its first epoch."""
        self._views: dict[str, View] = {}
        self._results: dict[str, MaterialisedView] = {}
        self._failed: dict[str, str] = {}
        self._now_ns = now_ns
        self._most_subscribers = most_subscribers
        self._subscriptions: set[Subscription] = set()
        self._cuts: dict[str, Cut] = {}
        self._held = False
        self.version = 0
        self.updates = 0
        self._adopt(program)

    @property
    def views(self) -> tuple[View, ...]:
        """In the order of the program."""
        return tuple(self._views.values())

    @property
    def failed(self) -> dict[str, str]:
        """View → why it ended."""
        return dict(self._failed)

    @property
    def cuts(self) -> dict[str, Cut]:
        """Where the newest version cuts each origin."""
        return dict(self._cuts)

    def result(self, name: str) -> MaterialisedView:
        """The full result of a view; raises `KeyError`."""
        return self._results[name]

    @property
    def is_held(self) -> bool:
        """Nothing is sent."""
        return self._held

    def hold(self) -> None:
        """Send nothing from now on: the views are stale."""
        self._held = True

    def release(self) -> None:
        """The views are fresh again: whoever missed something gets a new snapshot."""
        if self._held:
            self._held = False
            for subscription in tuple(self._subscriptions):
                subscription.catch_up()

    def restore(self, segment: Segment) -> None:
        """Take a version out of the result log, at start."""
        if segment.footer.control:
            self._adopt(decode_program(segment.footer.control))
        changes = {name: rows for name in self._views if (rows := segment.rows(name)) is not None}
        attributes = segment.footer.attributes
        failed = {key.removeprefix("failed/"): why for key, why in attributes.items() if key.startswith("failed/")}
        self._apply(segment.footer, changes, failed)

    def publish(
        self, footer: Footer, changes: dict[str, pa.Table], failed: dict[str, str], program: Program | None = None
    ) -> None:
        """Take a new version and tell the subscribers; with a program, it is the catalogue from this version on."""
        before = self.version
        dropped = self._adopt(program) if program is not None else ()
        self._apply(footer, changes, failed)
        if not self._subscriptions:
            return
        for name in dropped:
            frame = encode_frame(self._header("error", name, before, f"dropped at epoch {before + 1}"))
            for subscription in tuple(self._subscriptions):
                subscription.dropped(name, frame)
        frames = {
            name: encode_frame(self._header("changes", name, before), rows)
            for name, rows in changes.items()
            if rows.num_rows and name not in self._failed
        }
        frames |= {name: encode_frame(self._header("error", name, before, reason)) for name, reason in failed.items()}
        for subscription in tuple(self._subscriptions):
            subscription.changed(frames)

    def subscribe(self, names: Sequence[str], listener: Listener) -> Subscription | None:
        """A new subscriber of these views, sent their snapshots at once; None when there are too many."""
        if len(self._subscriptions) >= self._most_subscribers:
            return None
        subscription = Subscription(self, names, listener)
        self._subscriptions.add(subscription)
        subscription.catch_up()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Forget a subscriber."""
        self._subscriptions.discard(subscription)

    def heartbeat(self) -> None:
        """Tell every subscriber that the service lives and its views are fresh; nothing while held."""
        if self._held:
            return
        frame = encode_frame(FrameHeader("heartbeat", "", 0, self.version, time_ns=self._now_ns()))
        for subscription in tuple(self._subscriptions):
            subscription.heartbeat(frame)

    def snapshot_frame(self, name: str) -> bytes:
        """The full result of a view as a frame."""
        if name in self._failed:
            return encode_frame(self._header("error", name, 0, self._failed[name]))
        return encode_frame(self._header("snapshot", name, 0), self._results[name].rows())

    def _adopt(self, program: Program) -> tuple[str, ...]:
        """Take over a catalogue; gives the views that are gone with the old one."""
        views = {view.name: view for view in program.views}
        gone = tuple(name for name in self._views if name not in views)
        for name in gone:
            del self._results[name], self.since[name]
            self._failed.pop(name, None)
        for name, view in views.items():
            if name not in self._views:
                self._results[name] = MaterialisedView(view.columns)
                self.since[name] = self.version + 1  # a version's first epoch is the one that brings a program
        self.program, self._views = program, views
        return gone

    def _apply(self, footer: Footer, changes: dict[str, pa.Table], failed: dict[str, str]) -> None:
        self.version = footer.to_epoch
        self._cuts = footer.cuts
        self._failed |= failed
        for name, result in self._results.items():
            # Where one shard of a view has failed, the others' changes are parts of a result that there is not.
            result.apply(None if name in self._failed else changes.get(name), self.version)
        self.updates += len(changes)

    def _header(self, kind: str, name: str, from_epoch: int, reason: str = "") -> FrameHeader:
        feed = {origin: (cut.session, cut.sequence) for origin, cut in self._cuts.items()}
        return FrameHeader(kind, name, from_epoch, self.version, feed, self._now_ns(), reason)  # type: ignore[arg-type]
