"""Hub: every view's full result at the newest version, and the subscribers to changes.

A subscriber receives a snapshot of each of its views, then the changes. While its connection is full, changes wait in
one bounded queue for all slow subscribers of the view. When the connection has room again, the subscriber receives the
sum of these changes, or a new snapshot if the queue has overrun. Slow subscribers therefore use bounded memory. Changes
wait in the same way while the owner holds back a stale lane. The subscribers to versions of that lane then receive
nothing, not even heartbeats, and recognise by the silence that the views are stale.

`runtime.service.subscriptions.CommittedViews` serves the subscribers that follow committed epochs instead of versions;
committed epochs are never held back.

Each lane has its own versions. Versions of the Spark lane are epochs; versions of the express lane are steps, many in
one epoch. Derived streams are shown as views of a lane of their own, whose steps are the ends of epochs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Final, Literal

import msgspec
import pyarrow as pa

from deltabook.wire.results import FrameHeader
from runtime.engine.express import Update
from runtime.epochs import Cut, Footer, Segment
from runtime.native.tiers import Kernels
from runtime.plan import Lane, Program, View, decode_program, shown_program
from runtime.service.subscriptions import (
    CommittedViews,
    Epochs,
    Listener,
    Message,
    Start,
    Subscription,
    VersionSubscription,
    ViewStream,
    queues,
)
from runtime.views.materialised import MaterialisedView, overdue
from runtime.views.rows import change_schema

__all__ = ["Hub", "HubConfig"]

Kind = Literal["snapshot", "changes", "heartbeat", "error"]
_LANES: Final[tuple[Lane, ...]] = ("spark", "express", "stream")
_READ_NS: Final = 5_000_000_000
"""Time in nanoseconds after a read during which the lane counts as listened to."""


class _Version(msgspec.Struct, frozen=True, dict=True):
    """Version of a lane, or of one of the lane's views."""

    epoch: int = 0
    """Newest epoch whose changes are all in the version."""
    step: int = 0
    """Step of the express lane."""
    cuts: Mapping[str, Cut] = {}
    """Origin → cut at the last message whose changes the version has."""

    @cached_property
    def feed(self) -> dict[str, tuple[str, int]]:
        """Cuts in the form of a frame's header: origin → session and sequence."""
        return {origin: (cut.session, cut.sequence) for origin, cut in self.cuts.items()}


class HubConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds of subscribers."""

    most_subscribers: int = 1000
    """Greatest number of subscribers at the same time."""
    tuple_queues: Literal["shared", "own"] = "shared"
    """Queues of changes for slow subscribers: one queue for all subscribers of a view, or a queue for each
    subscriber."""
    queue_kilobytes: int = 4096
    """Size in kilobytes of a view's queue beyond which a slow subscriber gets a snapshot instead."""


class Hub:
    """All views of the catalogue and their subscribers. Belongs to the reactor's thread."""

    def __init__(
        self,
        program: Program,
        now_ns: Callable[[], int],
        config: HubConfig = HubConfig(),  # noqa: B008 (frozen)
        epochs: Epochs | None = None,
        kernels: Kernels | None = None,
        *,
        shown: Callable[[Program, Lane], Program] = shown_program,
    ) -> None:
        """Create a hub with the views of a program.

        ``epochs`` reads committed epochs; without it there are no subscriptions to them. ``kernels`` compiles the
        kernel that adds changes to results; without ``kernels`` this kernel is interpreted. ``shown`` returns the part
        of a program whose views are read from a lane.
        """
        self._kernels = kernels
        self.program = program
        """Catalogue at the Spark lane's version."""
        self.since: dict[str, int] = {}
        """View → its first epoch."""
        self._programs: dict[Lane, Program] = {}
        self._recorded: frozenset[str] = frozenset()
        self._views: dict[str, View] = {}
        self._results: dict[str, MaterialisedView] = {}
        self._failed: dict[str, str] = {}
        self._now_ns = now_ns
        self._shown = shown
        self._config = config
        self._queue = queues(config.tuple_queues, config.queue_kilobytes * 1024)
        self._streams: dict[str, ViewStream] = {}
        self._subscriptions: dict[Subscription, None] = {}
        self._followers: dict[str, dict[Subscription, Listener]] = {}
        self.arrow_followers: Counter[str] = Counter()
        """View → number of subscribers that currently receive its versions as Arrow; any thread may look up a view."""
        self.committed: CommittedViews | None = None
        """Views as of committed epochs."""
        if epochs is not None:
            self.committed = CommittedViews(
                epochs, self._queue, lambda name: self._results[name].rows(), lambda n: self._failed.get(n, ""), now_ns
            )
        self._versions: dict[Lane, _Version] = {lane: _Version() for lane in _LANES}
        self._read_ns: dict[Lane, int] = dict.fromkeys(_LANES, -_READ_NS)
        self._held_lanes: frozenset[Lane] = frozenset()
        self.updates = 0
        """Number of changes of views so far."""
        self._adopt("spark", program, 1)

    @property
    def views(self) -> tuple[View, ...]:
        """Derived streams and then views, each in the order of their creation."""
        return tuple(sorted(self._views.values(), key=lambda view: (view.lane != "stream", view.home)))

    def is_on_spark(self, name: str) -> bool:
        """Return True if, at Spark's newest version, Spark also maintains this view of the express lane."""
        return name in self._recorded

    @property
    def failed(self) -> dict[str, str]:
        """View → reason why it failed."""
        return dict(self._failed)

    @property
    def version(self) -> int:
        """Newest epoch of the Spark lane."""
        return self.epoch("spark")

    @property
    def cuts(self) -> dict[str, Cut]:
        """Cuts of the origins at the Spark lane's newest version."""
        return self.cuts_of("spark")

    def cuts_of(self, lane: Lane) -> dict[str, Cut]:
        """Return the cut of each origin: the last message of the origin that all views of a lane cover."""
        return dict(self._versions[lane].cuts)

    def epoch(self, lane: Lane) -> int:
        """Return the newest epoch that a lane's version covers completely."""
        return self._versions[lane].epoch

    def step(self, lane: Lane) -> int:
        """Return the step of a lane's version; 0 for the Spark lane."""
        return self._versions[lane].step

    def step_of(self, name: str) -> int:
        """Return the step of a view's version; 0 for a view of the Spark lane.

        Raises `KeyError` if the view is unknown.
        """
        return self._versions[self._views[name].lane].step

    def epoch_of(self, name: str) -> int:
        """Return the newest epoch that a view's version covers completely; raises `KeyError` if the view is unknown."""
        return self._versions[self._views[name].lane].epoch

    def result(self, name: str) -> MaterialisedView:
        """Return the full result of a view; raises `KeyError` if the view is unknown."""
        return self._results[name]

    def read(self, name: str) -> MaterialisedView:
        """Return a view's result and record the read, for `is_listened_to`; raises `KeyError` if it is unknown."""
        self._read_ns[self._views[name].lane] = self._now_ns()
        return self._results[name]

    def is_listened_to(self, lane: Lane) -> bool:
        """Return True if views of a lane have subscribers, or one of them was read in the last 5 s."""
        if self._now_ns() - self._read_ns[lane] < _READ_NS:
            return True
        if self.committed is not None and self.committed.is_followed(lane):
            return True
        return any(self._is_in(name, lane) for subscription in self._subscriptions for name in subscription.names)

    def has_version(self, name: str) -> bool:
        """Return True once a view's lane has published a version; Spark publishes its first version a while after the
        start.

        Raises `KeyError` if the view is unknown.
        """
        return self._views[name].lane != "spark" or self.version > 0

    def lane_of(self, name: str) -> Lane:
        """Return the lane of a view; raises `KeyError` if the view is unknown."""
        return self._views[name].lane

    def program_of(self, name: str) -> Program:
        """Return the program of a view's lane; raises `KeyError` if the view is unknown."""
        return self._programs[self._views[name].lane]

    @property
    def held_lanes(self) -> frozenset[Lane]:
        """Lanes that are held back."""
        return self._held_lanes

    def hold(self, lanes: Collection[Lane] = _LANES) -> None:
        """Hold back the views of ``lanes``, which are stale, and release the views of all other lanes."""
        self._held_lanes = frozenset(lanes)
        for subscription in tuple(self._subscriptions):
            subscription.hold()

    def restore(self, segment: Segment) -> None:
        """Restore a version of the Spark lane from the result log, at start."""
        if segment.footer.control:
            self._adopt("spark", decode_program(segment.footer.control), self.version + 1)
        changes = {name: rows for name in self._views if (rows := segment.rows(name)) is not None}
        attributes = segment.footer.attributes
        failed = {key.removeprefix("failed/"): why for key, why in attributes.items() if key.startswith("failed/")}
        self._apply("spark", changes, failed, _Version(segment.footer.to_epoch, cuts=segment.footer.cuts))
        if self.committed is not None:
            self.committed.begin("spark", self.version, segment.footer.cuts)

    def begin_lane(
        self,
        program: Program,
        rows: Mapping[str, pa.Table],
        failed: Mapping[str, str],
        epoch: int,
        cuts: Mapping[str, Cut],
        *,
        lane: Literal["express", "stream"] = "express",
    ) -> None:
        """Set the state of a lane of this process at the start: as of the newest epoch, whose cuts are ``cuts``.

        ``program`` has the lane's views, or the derived streams as views (`runtime.plan.stream_views`). ``rows`` maps
        each view to its rows with weights; ``failed`` maps each failed view to the reason of the failure.
        """
        self._adopt(lane, program, epoch)
        self._apply(lane, rows, failed, _Version(epoch, cuts=cuts))
        if self.committed is not None:
            self.committed.begin(lane, epoch, cuts)

    def publish(
        self,
        footer: Footer,
        changes: Mapping[str, pa.Table],
        failed: Mapping[str, str],
        program: Program | None = None,
    ) -> None:
        """Publish a new version of the Spark lane to its subscribers; ``program`` is a new catalogue."""
        before = self.version
        dropped = self._adopt("spark", program, before + 1) if program is not None else ()
        self._apply("spark", changes, failed, _Version(footer.to_epoch, cuts=footer.cuts))
        self._notify("spark", before, changes, failed, dropped)
        if self.committed is not None:
            self.committed.published(footer, changes, failed)

    def publish_update(
        self, update: Update, bodies: Mapping[str, bytes] = {}, *, lane: Literal["express", "stream"] = "express"
    ) -> None:
        """Publish a new version of the express lane, or the changes of derived streams in an epoch.

        ``bodies`` are changes of views that are already encoded, for subscribers that read Arrow.
        """
        before = self.epoch(lane)
        dropped = self._adopt(lane, update.program, update.epoch) if update.program is not None else ()
        self._apply(lane, update.changes, update.failed, _Version(update.epoch, update.step, update.cuts))
        self._notify(lane, before, update.changes, update.failed, dropped, bodies=bodies)
        if self.committed is not None:
            self.committed.updated(update, lane)

    def commit(self, footer: Footer, rows: Mapping[str, Sequence[pa.RecordBatch]]) -> None:
        """Publish a committed epoch, with the rows of its segment by section.

        The express lane's version at the end of the epoch has been published before.
        """
        if self.committed is not None:
            self.committed.committed(footer, rows)

    def fail_lane(self, lane: Lane, reason: str) -> None:
        """Mark the views of a failed lane as failed; without an error, subscribers would take these views for
        unchanged."""
        part = self._programs.get(lane)
        failed = {view.name: reason for view in part.views if view.name not in self._failed} if part else {}
        self._failed |= failed
        self._notify(lane, self.epoch(lane), {}, failed, ())
        if self.committed is not None:
            self.committed.fail_lane(lane, reason)

    def subscribe(self, names: Sequence[str], listener: Listener, start: Start | None = None) -> Subscription | None:
        """Return a subscription to these views, None if there are too many subscribers.

        With a ``start`` the subscription follows committed epochs, otherwise versions. Nothing is sent before
        `catch_up` or `resume` of the subscription is called.
        """
        if self.subscribers >= self._config.most_subscribers:
            return None
        if start is not None:
            assert self.committed is not None
            return self.committed.subscribe(names, listener, start)
        subscription = VersionSubscription(names, listener, self)
        self._subscriptions[subscription] = None
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Remove a subscription and release what is queued for it."""
        self._subscriptions.pop(subscription, None)
        if self.committed is not None:
            self.committed.unsubscribe(subscription)
        subscription.close()

    @property
    def most_subscribers(self) -> int:
        """Greatest number of subscribers."""
        return self._config.most_subscribers

    @property
    def subscribers(self) -> int:
        """Number of subscribers."""
        return len(self._subscriptions) + (self.committed.subscribers if self.committed else 0)

    def heartbeat(self) -> None:
        """Send a heartbeat to every subscriber to fresh versions, and to every subscriber that follows committed
        epochs."""
        message = Message(FrameHeader("heartbeat", "", 0, self.version, time_ns=self._now_ns()))
        for subscription in tuple(self._subscriptions):
            subscription.heartbeat(message)
        if self.committed is not None:
            self.committed.heartbeat(message)

    # Called by subscriptions

    def stream(self, name: str) -> ViewStream:
        """Return the queue in which a view's changes wait."""
        return self._streams[name]

    def snapshot(self, name: str) -> Message:
        """Return a message with the full result of a view, or with the reason why it failed."""
        lane = self._views[name].lane
        if name in self._failed:
            return Message(self._header("error", name, lane, 0, self._failed[name]))
        return Message(self._header("snapshot", name, lane, 0), self._results[name].rows())

    def follow(self, name: str, subscription: VersionSubscription, listener: Listener) -> None:
        """Write a view's messages to a listener from now on, as they are published."""
        self._followers.setdefault(name, {})[subscription] = listener
        self.arrow_followers[name] += listener.reads_arrow

    def unfollow(self, name: str, subscription: VersionSubscription) -> None:
        """Stop writing a view's messages to the listener of a subscription."""
        followers = self._followers[name]
        self.arrow_followers[name] -= followers.pop(subscription).reads_arrow
        if not followers:
            del self._followers[name], self.arrow_followers[name]

    def is_held(self, name: str) -> bool:
        """Return True while a view is held back."""
        view = self._views.get(name)
        return view is not None and view.lane in self._held_lanes

    def _adopt(self, lane: Lane, program: Program, epoch: int) -> tuple[str, ...]:
        """Set a lane's part of a catalogue from an epoch on; return the names of the views that it drops."""
        part = self._shown(program, lane)
        if lane == "spark":
            self.program = program
            self._recorded = frozenset(view.name for view in program.views if view.on_spark)
        self._programs[lane] = part
        views = {view.name: view for view in part.views}
        gone = [name for name, view in self._views.items() if view.lane == lane and name not in views]
        # A new view may have the name of a dropped view of another lane, if that lane is late and still has the view.
        gone += [name for name in views if name in self._views and self._views[name].lane != lane]
        for name in gone:
            if self.committed is not None:
                self.committed.drop(name, epoch, f"dropped at epoch {epoch}")
            del self._results[name], self.since[name], self._views[name], self._streams[name]
            self._failed.pop(name, None)
        for name, view in views.items():
            if name not in self._views:
                self._results[name] = MaterialisedView(view.columns, kernels=self._kernels)
                self._streams[name] = ViewStream(change_schema(view.columns), self._queue())
                self.since[name] = epoch
                if self.committed is not None:
                    self.committed.adopt(view, epoch)
            self._views[name] = view
        return tuple(gone)

    def _apply(self, lane: Lane, changes: Mapping[str, pa.Table], failed: Mapping[str, str], version: _Version) -> None:
        """Apply changes of a lane's views, and set the version of all its views; unchanged views are not visited."""
        self._failed |= {name: why for name, why in failed.items() if self._is_in(name, lane)}
        waiting = {}
        for name, rows in changes.items():
            # If one shard of a view has failed, the changes of the other shards are parts of an incomplete result.
            if self._is_in(name, lane) and name not in self._failed:
                result = self._results[name]
                result.apply(rows)
                waiting[id(result.waiting)] = result
        for pending in overdue([result.waiting for result in waiting.values()], len(self._results)):
            waiting[id(pending)].settle()
        self.updates += len(changes)
        self._versions[lane] = version

    def _is_in(self, name: str, lane: Lane) -> bool:
        view = self._views.get(name)
        return view is not None and view.lane == lane

    def _notify(
        self,
        lane: Lane,
        before: int,
        changes: Mapping[str, pa.Table],
        failed: Mapping[str, str],
        dropped: Sequence[str],
        *,
        bodies: Mapping[str, bytes] = {},
    ) -> None:
        at = before + 1 if lane == "spark" else self.epoch(lane)
        for name in dropped:
            message = Message(self._header("error", name, lane, before, f"dropped at epoch {at}"))
            for subscription in tuple(self._subscriptions):
                if subscription.dropped(name, message):
                    self.unsubscribe(subscription)
        concerned = {name for name in (*changes, *failed) if self._is_in(name, lane)}
        messages = {
            name: Message(self._header("changes", name, lane, before), rows, bodies.get(name, b""))
            for name, rows in changes.items()
            if rows.num_rows and name in concerned and name not in self._failed
        }
        messages |= {n: Message(self._header("error", n, lane, before, w)) for n, w in failed.items() if n in concerned}
        notified: dict[Subscription, None] = {}
        for name, message in messages.items():
            self._streams[name].add(message)
            followers = self._followers.get(name, {})
            for subscription, listener in tuple(followers.items()):
                if subscription in followers:  # writing to one connection may have removed another subscription
                    listener.write(message)
                    notified[subscription] = None
        for subscription in notified:
            subscription.flush()

    def _header(self, kind: Kind, name: str, lane: Lane, from_epoch: int, reason: str = "") -> FrameHeader:
        version = self._versions[self._views[name].lane if name in self._views else lane]
        return FrameHeader(kind, name, from_epoch, version.epoch, version.feed, self._now_ns(), reason, version.step)
