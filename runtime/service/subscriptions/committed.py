"""The change streams of committed epochs: what a restart, also after a kill, goes on with and never tells otherwise.

The views of the express lane run ahead of the epochs, so that a subscriber here begins with a snapshot taken where an
epoch ends, and hears of it once that is committed; its changes are read from the epoch's segment. Those of the Spark
lane are durable before anybody hears of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa
from twisted.internet.defer import Deferred, DeferredLock
from twisted.logger import Logger
from twisted.python.failure import Failure

from deltabook.wire.results import FrameHeader
from runtime.engine.express import ANEW, Update
from runtime.epochs import Cut, EpochLogError, Footer, Segment
from runtime.plan import Lane, View
from runtime.service.subscriptions.epochsubscription import EpochSubscription
from runtime.service.subscriptions.history import History, Past, section_of
from runtime.service.subscriptions.message import Message
from runtime.service.subscriptions.subscription import Listener, Subscription
from runtime.service.subscriptions.viewstream import QueueConfigured, ViewStream
from runtime.views.rows import change_schema

__all__ = ["CommittedViews", "Epochs", "Start"]

Kind = Literal["snapshot", "changes", "progress", "error"]
_IN_LOG: Final[tuple[Lane, ...]] = ("express", "stream")
"""Lanes whose changes stand in the segments of the epoch log."""


class Epochs(msgspec.Struct, frozen=True):
    """What committed epochs are read with."""

    run: str
    """Tells the run directory from others: see `runtime.epochs.EpochLogReader.identity`."""
    history: History
    """Reads those that are over."""
    segment: Callable[[int], Segment]
    """Reads the one that was committed last."""
    in_thread: Callable[[Callable[[], Past]], Deferred[Past]]
    """Runs what takes long."""


class Start(msgspec.Struct, frozen=True):
    """Where somebody begins to follow committed epochs."""

    epochs: Mapping[str, int] = {}
    """View → the newest epoch that is known; those that are not here begin with a snapshot."""
    run: str = ""
    """Whose epochs these are; empty if that is not known."""


class _View:
    """A view and its committed changes."""

    __slots__ = ("closed", "followers", "is_open", "pinned", "since", "stream", "told", "view", "wanting")

    def __init__(self, view: View, since: int, stream: ViewStream, told: int) -> None:
        self.view = view
        self.since = since
        self.stream = stream
        self.told = told
        """Who follows has heard everything up to this epoch."""
        self.followers: dict[EpochSubscription, None] = {}
        """Whose view it is, followed or not yet."""
        self.closed = told
        """Of the express lane: the newest epoch whose end the view has seen …"""
        self.is_open = False
        """… and whether it has changed since."""
        self.wanting: dict[EpochSubscription, None] = {}
        """Who waits for a snapshot at the end of an epoch."""
        self.pinned: Message | None = None
        """That snapshot, until its epoch is committed."""


class CommittedViews:
    """All views as of committed epochs, and who follows them; on the reactor's thread."""

    _log = Logger()

    def __init__(
        self,
        epochs: Epochs,
        queue: QueueConfigured,
        rows: Callable[[str], pa.Table],
        failure: Callable[[str], str],
        now_ns: Callable[[], int],
    ) -> None:
        """``rows`` gives a view's full result as it is now, ``failure`` why it has failed, empty if it has not."""
        self._epochs = epochs
        self._queue = queue
        self._rows = rows
        self._failure = failure
        self._now_ns = now_ns
        self._views: dict[str, _View] = {}
        self._at: dict[Lane, tuple[int, Mapping[str, Cut]]] = {"spark": (0, {}), "express": (0, {}), "stream": (0, {})}
        self._closed_cuts: dict[Lane, Mapping[str, Cut]] = {}
        self._ending: list[tuple[int, _View, str]] = []
        self._subscriptions: dict[EpochSubscription, None] = {}
        self._touched: dict[EpochSubscription, None] = {}
        self._beginning: dict[EpochSubscription, None] = {}
        self._failed_lanes: dict[Lane, str] = {}
        self._one_read = DeferredLock()

    @property
    def run(self) -> str:
        """Whose epochs these are."""
        return self._epochs.run

    def epoch(self, lane: Lane) -> int:
        """The newest committed epoch of a lane's views."""
        return self._at[lane][0]

    # What the hub says

    def adopt(self, view: View, since: int) -> None:
        """There is a view, from an epoch on that may not be committed yet."""
        stream = ViewStream(change_schema(view.columns), self._queue())
        self._views[view.name] = _View(view, since, stream, self._at[view.lane][0])

    def begin(self, lane: Lane, epoch: int, cuts: Mapping[str, Cut]) -> None:
        """A lane is at an epoch, at start."""
        self._at[lane] = (epoch, cuts)
        for one in self._of(lane):
            one.told = one.closed = epoch

    def drop(self, name: str, epoch: int, reason: str) -> None:
        """A view is no more from an epoch on; who follows it is told when that is committed."""
        one = self._views.pop(name)
        if one.view.lane != "spark" and epoch > self._at[one.view.lane][0]:
            self._ending.append((epoch, one, reason))
        else:
            self._end(one, reason)

    def updated(self, update: Update, lane: Lane = "express") -> None:
        """A lane of this process has a version, which may be the end of an epoch."""
        if update.closes:
            self._closed_cuts[lane] = update.cuts
        for one in self._of(lane):
            if update.closes:
                one.closed, one.is_open = update.epoch, False
                if one.view.name in update.changes:
                    one.pinned = None  # of the same end, before all was told of it
                self._pin(one)
            elif one.view.name in update.changes:
                one.is_open = True

    def committed(self, footer: Footer) -> None:
        """An epoch is committed, and with it what the express lane's views changed in it."""
        epoch = footer.to_epoch
        self._at["express"] = self._at["stream"] = (epoch, footer.cuts)
        lanes: list[Lane] = [lane for lane in _IN_LOG if lane not in self._failed_lanes]
        followed = [one for lane in lanes for one in self._of(lane) if one.followers]
        followed += [one for begun, one, _ in self._ending if begun > epoch and one.followers]
        if followed:
            self._tell_epoch(followed, footer)
        ended = [(one, reason) for begun, one, reason in self._ending if begun <= epoch]
        self._ending = [entry for entry in self._ending if entry[0] > epoch]
        for one, reason in ended:
            self._end(one, reason)
        for one in followed:
            if one.pinned is not None and one.pinned.header.to_epoch == epoch:
                self._begin_wanting(one, one.pinned)
        self._flush()

    def published(self, footer: Footer, changes: Mapping[str, pa.Table], failed: Mapping[str, str]) -> None:
        """The Spark lane has a version."""
        self._at["spark"] = (footer.to_epoch, footer.cuts)
        for one in self._of("spark"):
            name = one.view.name
            if one.followers and (name in failed or not self._failure(name)):
                self._tell(one, changes.get(name), failed.get(name, ""))
        self._flush()
        for one in self._of("spark"):
            if one.wanting:
                self._begin_wanting(one, self._snapshot(one, *self._at["spark"]))

    def fail_lane(self, lane: Lane, reason: str) -> None:
        """Nothing more will come from a lane."""
        self._failed_lanes[lane] = reason
        for one in self._of(lane):
            self._tell(one, None, reason)
        self._flush()

    def heartbeat(self, message: Message) -> None:
        """Tell every subscriber that the service lives, and how far views are that have not changed."""
        for one in tuple(self._views.values()):
            if one.followers and one.view.lane not in self._failed_lanes:
                self._settle(one)
        self._flush()
        for subscription in tuple(self._subscriptions):
            subscription.heartbeat(message)

    # What subscriptions ask; names are of views that are there

    def subscribe(self, names: Sequence[str], listener: Listener, start: Start) -> EpochSubscription:
        """Follow these views; `EpochSubscription.catch_up` sends what is due."""
        subscription = EpochSubscription(names, listener, self, start.epochs)
        if start.run not in {"", self.run}:
            for name in start.epochs:
                subscription.begin_again(name, f"expected epochs of the run {self.run}, was {start.run}")
        self._subscriptions[subscription] = None
        for name in names:
            self._views[name].followers[subscription] = None
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Forget a subscriber."""
        if isinstance(subscription, EpochSubscription) and subscription in self._subscriptions:
            del self._subscriptions[subscription]
            for one in (*self._views.values(), *(one for _, one, _ in self._ending)):
                one.followers.pop(subscription, None)
                one.wanting.pop(subscription, None)

    @property
    def subscribers(self) -> int:
        """How many there are."""
        return len(self._subscriptions)

    def is_followed(self, lane: Lane) -> bool:
        """Whether anybody follows a view of a lane."""
        return any(one.followers for one in self._of(lane))

    def is_held(self, name: str) -> bool:
        """What is committed is never held: who asks for epochs wants all of them, in whatever time."""
        del name
        return False

    def stream(self, name: str) -> ViewStream:
        """Where the changes of a view wait."""
        return self._find(name).stream

    def told(self, name: str) -> int:
        """Who follows a view has heard everything up to here."""
        return self._find(name).told

    def settle(self, name: str) -> int:
        """Bring all who follow a view to the newest epoch, which it gives."""
        epoch = self._settle(self._find(name))
        self._flush()
        return epoch

    def snapshot(self, name: str) -> Message | None:
        """A view's full result at the newest epoch; None if it has none yet, or is not at the end of an epoch.

        See `want`.
        """
        one = self._find(name)
        epoch, cuts = self._at[one.view.lane]
        if epoch == 0 if one.view.lane == "spark" else one.is_open or one.closed > epoch:
            return None
        return self._snapshot(one, epoch, cuts)

    def failure(self, name: str) -> str:
        """Why a view has failed; empty if it has not."""
        return self._failure(name) or self._failed_lanes.get(self._find(name).view.lane, "")

    def want(self, name: str, subscription: EpochSubscription) -> None:
        """Call `EpochSubscription.began` with a snapshot as soon as there is one."""
        one = self._find(name)
        one.wanting[subscription] = None
        if one.view.lane != "spark" and not one.is_open:
            self._pin(one)

    def read(self, name: str, begin: int, end: int, done: Callable[[Past], None]) -> None:
        """Have the changes of a view in ``(begin, end]`` read; one such reading at a time."""
        one, epochs = self._find(name), self._epochs

        def read() -> Any:
            return epochs.in_thread(lambda: epochs.history.read(one.view, one.since, begin, end))

        def failed(failure: Failure) -> None:
            self._log.failure("reading epochs behind {epoch} of view {view}", failure, epoch=begin, view=name)
            done(Past(begin, gone=f"epochs behind {begin} cannot be read"))

        reading: Deferred[Past] = self._one_read.run(read)
        reading.addCallbacks(done, failed)

    def header(self, name: str, kind: Kind, begin: int, end: int, cuts: Mapping[str, Cut]) -> FrameHeader:
        """Of a message about a span of epochs."""
        feed = {origin: (cut.session, cut.sequence) for origin, cut in cuts.items()}
        return FrameHeader(kind, name, begin, end, feed, self._now_ns())

    def _find(self, name: str) -> _View:
        """A view that is there, or is still followed up to its end."""
        found = self._views.get(name)
        return found or next(one for _, one, _ in self._ending if one.view.name == name)

    def _of(self, lane: Lane) -> list[_View]:
        return [one for one in self._views.values() if one.view.lane == lane]

    def _tell_epoch(self, followed: Sequence[_View], footer: Footer) -> None:
        try:
            segment = self._epochs.segment(footer.to_epoch)
            changes = {one.view.name: segment.rows(section_of(one.view)) for one in followed}
        except (EpochLogError, OSError) as error:
            self._log.error("epoch {epoch} cannot be read: {reason}", epoch=footer.to_epoch, reason=str(error))
            for one in followed:
                self._tell(one, None, f"epoch {footer.to_epoch} cannot be read")
            return
        for one in followed:
            name = one.view.name
            is_anew = f"{ANEW}{name}" in footer.attributes
            self._tell(one, changes[name], footer.attributes.get(f"failed/{name}", ""), is_anew=is_anew)

    def _tell(self, one: _View, rows: pa.Table | None, failed: str, *, is_anew: bool = False) -> None:
        """Tell who follows a view what it changed up to the newest epoch, if it did."""
        if failed:
            self._send(one, self._message(one, "error", None, failed))
        elif is_anew:
            for subscription in tuple(one.followers):
                subscription.begin_again(one.view.name, f"the view was filled anew at epoch {self._epoch(one)}")
                self._beginning[subscription] = None
        elif rows is not None and rows.num_rows:
            self._send(one, self._message(one, "changes", rows))

    def _settle(self, one: _View) -> int:
        if one.told < self._epoch(one):
            message = self._message(one, "progress", None)
            one.told = message.header.to_epoch
            for subscription in tuple(one.followers):
                if subscription.changed(one.view.name, message):
                    self._touched[subscription] = None
        return one.told

    def _send(self, one: _View, message: Message) -> None:
        one.stream.add(message)
        one.told = message.header.to_epoch
        for subscription in tuple(one.followers):
            if subscription.changed(one.view.name, message):
                self._touched[subscription] = None

    def _flush(self) -> None:
        """What was told together belongs together."""
        touched, self._touched = self._touched, {}
        for subscription in touched:
            subscription.flush()
        beginning, self._beginning = self._beginning, {}
        for subscription in beginning:  # only now: what the epoch changed in other views must not be in its snapshots
            subscription.catch_up()

    def _message(self, one: _View, kind: Kind, rows: pa.Table | None, reason: str = "") -> Message:
        epoch, cuts = self._at[one.view.lane]
        header = self.header(one.view.name, kind, one.told, epoch, cuts)
        return Message(msgspec.structs.replace(header, reason=reason), rows)

    def _end(self, one: _View, reason: str) -> None:
        message = self._message(one, "error", None, reason)
        for subscription in tuple(one.followers):
            if subscription.dropped(one.view.name, message):
                self.unsubscribe(subscription)

    def _epoch(self, one: _View) -> int:
        return self._at[one.view.lane][0]

    def _pin(self, one: _View) -> None:
        """Take the snapshot that subscribers want, as the view is at the end of an epoch now."""
        if one.wanting and (one.pinned is None or one.pinned.header.to_epoch < one.closed):
            one.pinned = self._snapshot(one, one.closed, self._closed_cuts.get(one.view.lane, {}))

    def _snapshot(self, one: _View, epoch: int, cuts: Mapping[str, Cut]) -> Message:
        name = one.view.name
        if failure := self.failure(name):
            return Message(msgspec.structs.replace(self.header(name, "error", 0, epoch, cuts), reason=failure))
        return Message(self.header(name, "snapshot", 0, epoch, cuts), self._rows(name))

    def _begin_wanting(self, one: _View, snapshot: Message) -> None:
        wanting, one.wanting, one.pinned = tuple(one.wanting), {}, None
        self._settle(one)
        self._flush()
        for subscription in wanting:
            subscription.began(one.view.name, snapshot)
