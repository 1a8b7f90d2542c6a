"""Views as of committed epochs, which subscribers resume after a restart of the runtime, even after a kill.

No change is sent before its epoch is committed. Views of the express lane are ahead of the committed epochs. Therefore
a snapshot is taken at the end of an epoch, and sent to a new subscriber once that epoch is committed. Afterwards the
subscriber receives the changes in each epoch's segment, which the committer passes on. Versions of the Spark lane are
durable before they are published.
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
from runtime.epochs import Cut, Footer
from runtime.plan import Lane, View
from runtime.service.subscriptions.epochsubscription import EpochSubscription, History, Past, section_of
from runtime.service.subscriptions.subscription import Listener, Subscription
from runtime.service.subscriptions.viewstream import Message, QueueConfigured, ViewStream
from runtime.views.rows import change_schema

__all__ = ["CommittedViews", "Epochs", "Start"]

Kind = Literal["snapshot", "changes", "progress", "error"]
_IN_LOG: Final[tuple[Lane, ...]] = ("express", "stream")
"""Lanes whose changes are in the segments of the epoch log."""


class Epochs(msgspec.Struct, frozen=True):
    """Access to committed epochs."""

    run: str
    """Identity of the run directory, see `runtime.epochs.EpochLogReader.identity`."""
    history: History
    """Reader of past epochs."""
    in_thread: Callable[[Callable[[], Past]], Deferred[Past]]
    """Callable that runs a slow call on another thread."""


class Start(msgspec.Struct, frozen=True):
    """Position at which a subscriber begins to follow committed epochs."""

    epochs: Mapping[str, int] = {}
    """View → the newest epoch that the subscriber has; views that are missing here begin with a snapshot."""
    run: str = ""
    """Identity of the run that the epochs belong to; empty if it is unknown."""


class _ViewState:
    """State of a view and its committed changes."""

    __slots__ = ("closed", "delivered", "followers", "is_open", "pinned", "since", "stream", "view", "wanting")

    def __init__(self, view: View, since: int, stream: ViewStream, delivered: int) -> None:
        self.view = view
        self.since = since
        self.stream = stream
        self.delivered = delivered
        """Newest epoch up to which all changes were sent to the subscribers that follow the view."""
        self.followers: dict[EpochSubscription, None] = {}
        """Subscriptions to the view, including subscriptions that do not follow the view yet."""
        self.closed = delivered
        """Newest epoch whose end the view's current result has reached; not used on Spark."""
        self.is_open = False
        """True if the view has changed since the end of epoch ``closed``."""
        self.wanting: dict[EpochSubscription, None] = {}
        """Subscriptions that wait for a snapshot at the end of an epoch."""
        self.pinned: Message | None = None
        """Snapshot at the end of an epoch, until that epoch is committed."""


class CommittedViews:
    """All views as of committed epochs, and their subscribers. Belongs to the reactor's thread."""

    _log = Logger()

    def __init__(
        self,
        epochs: Epochs,
        queue: QueueConfigured,
        rows: Callable[[str], pa.Table],
        failure: Callable[[str], str],
        now_ns: Callable[[], int],
    ) -> None:
        """Start without views.

        ``rows`` returns a view's current full result; ``failure`` returns the reason why a view failed, empty if it has
        not failed.
        """
        self._epochs = epochs
        self._queue = queue
        self._rows = rows
        self._failure = failure
        self._now_ns = now_ns
        self._views: dict[str, _ViewState] = {}
        self._at: dict[Lane, tuple[int, Mapping[str, Cut]]] = {"spark": (0, {}), "express": (0, {}), "stream": (0, {})}
        self._closed_cuts: dict[Lane, Mapping[str, Cut]] = {}
        self._ending: list[tuple[int, _ViewState, str]] = []
        self._subscriptions: dict[EpochSubscription, None] = {}
        self._touched: dict[EpochSubscription, None] = {}
        self._beginning: dict[EpochSubscription, None] = {}
        self._failed_lanes: dict[Lane, str] = {}
        self._read_lock = DeferredLock()

    @property
    def run(self) -> str:
        """Identity of the run that the epochs belong to."""
        return self._epochs.run

    def epoch(self, lane: Lane) -> int:
        """Return the newest committed epoch of a lane's views."""
        return self._at[lane][0]

    # Called by the hub

    def adopt(self, view: View, since: int) -> None:
        """Add a view that exists from the epoch ``since`` on; this epoch need not be committed yet."""
        stream = ViewStream(change_schema(view.columns), self._queue())
        self._views[view.name] = _ViewState(view, since, stream, self._at[view.lane][0])

    def begin(self, lane: Lane, epoch: int, cuts: Mapping[str, Cut]) -> None:
        """Set the epoch at which a lane starts."""
        self._at[lane] = (epoch, cuts)
        for state in self._states(lane):
            state.delivered = state.closed = epoch

    def drop(self, name: str, epoch: int, reason: str) -> None:
        """Remove a view that ends at an epoch; subscribers of the view are notified when that epoch is committed."""
        state = self._views.pop(name)
        if state.view.lane != "spark" and epoch > self._at[state.view.lane][0]:
            self._ending.append((epoch, state, reason))
        else:
            self._end(state, reason)

    def updated(self, update: Update, lane: Lane = "express") -> None:
        """Record a version of a lane of this process, possibly the version at the end of an epoch."""
        if update.closes:
            self._closed_cuts[lane] = update.cuts
        for state in self._states(lane):
            if update.closes:
                state.closed, state.is_open = update.epoch, False
                if state.view.name in update.changes:
                    state.pinned = None  # the snapshot may be of the same epoch, but lacks these changes
                self._pin(state)
            elif state.view.name in update.changes:
                state.is_open = True

    def committed(self, footer: Footer, rows: Mapping[str, Sequence[pa.RecordBatch]]) -> None:
        """Publish a committed epoch to the subscribers of express views and derived streams.

        ``rows`` are the rows of the epoch's segment, by section; sections that belong to no view are ignored.
        """
        epoch = footer.to_epoch
        self._at["express"] = self._at["stream"] = (epoch, footer.cuts)
        lanes: list[Lane] = [lane for lane in _IN_LOG if lane not in self._failed_lanes]
        followed = [state for lane in lanes for state in self._states(lane) if state.followers]
        followed += [state for begun, state, _ in self._ending if begun > epoch and state.followers]
        if followed:
            self._publish_epoch(followed, footer, rows)
        ended = [(state, reason) for begun, state, reason in self._ending if begun <= epoch]
        self._ending = [entry for entry in self._ending if entry[0] > epoch]
        for state, reason in ended:
            self._end(state, reason)
        for state in followed:
            if state.pinned is not None and state.pinned.header.to_epoch == epoch:
                self._begin_wanting(state, state.pinned)
        self._flush()

    def published(self, footer: Footer, changes: Mapping[str, pa.Table], failed: Mapping[str, str]) -> None:
        """Publish a version of the Spark lane."""
        self._at["spark"] = (footer.to_epoch, footer.cuts)
        for state in self._states("spark"):
            name = state.view.name
            if state.followers and (name in failed or not self._failure(name)):
                self._publish(state, changes.get(name), failed.get(name, ""))
        self._flush()
        for state in self._states("spark"):
            if state.wanting:
                self._begin_wanting(state, self._snapshot(state, *self._at["spark"]))

    def fail_lane(self, lane: Lane, reason: str) -> None:
        """Report the failure of a lane to the subscribers of its views, also to those that wait for a snapshot."""
        self._failed_lanes[lane] = reason
        for state in self._states(lane):
            self._publish(state, None, reason)
            if state.wanting:
                self._begin_wanting(state, self._snapshot(state, *self._at[lane]))
        self._flush()

    def heartbeat(self, message: Message) -> None:
        """Send a heartbeat to every subscriber, and the progress of views that have not changed."""
        for state in tuple(self._views.values()):
            if state.followers and state.view.lane not in self._failed_lanes:
                self._settle(state)
        self._flush()
        for subscription in tuple(self._subscriptions):
            subscription.heartbeat(message)

    # Called by subscriptions; all names are those of existing views

    def subscribe(self, names: Sequence[str], listener: Listener, start: Start) -> EpochSubscription:
        """Return a subscription to these views; its `catch_up` sends the pending messages."""
        subscription = EpochSubscription(names, listener, self, start.epochs)
        if start.run not in {"", self.run}:
            for name in start.epochs:
                subscription.begin_again(name, f"expected epochs of the run {self.run}, was {start.run}")
        self._subscriptions[subscription] = None
        for name in names:
            self._views[name].followers[subscription] = None
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Remove a subscriber."""
        if isinstance(subscription, EpochSubscription) and subscription in self._subscriptions:
            del self._subscriptions[subscription]
            for state in (*self._views.values(), *(state for _, state, _ in self._ending)):
                state.followers.pop(subscription, None)
                state.wanting.pop(subscription, None)

    @property
    def subscribers(self) -> int:
        """Number of subscribers."""
        return len(self._subscriptions)

    def is_followed(self, lane: Lane) -> bool:
        """Return True if a view of a lane has subscribers."""
        return any(state.followers for state in self._states(lane))

    def is_held(self, name: str) -> bool:
        """Return False: committed epochs are never held back, because subscribers need all of them, however late."""
        del name
        return False

    def stream(self, name: str) -> ViewStream:
        """Return the queue in which a view's changes wait."""
        return self._find(name).stream

    def delivered(self, name: str) -> int:
        """Return the newest epoch up to which all changes were sent to the subscribers that follow a view."""
        return self._find(name).delivered

    def settle(self, name: str) -> int:
        """Send the progress of a view up to the newest epoch, and return that epoch."""
        epoch = self._settle(self._find(name))
        self._flush()
        return epoch

    def snapshot(self, name: str) -> Message | None:
        """Return a view's full result at the newest epoch.

        Returns None if the view has no result yet, or has changed since the end of that epoch, see `want`.
        """
        state = self._find(name)
        epoch, cuts = self._at[state.view.lane]
        if epoch == 0 if state.view.lane == "spark" else state.is_open or state.closed > epoch:
            return None
        return self._snapshot(state, epoch, cuts)

    def failure(self, name: str) -> str:
        """Return the reason why a view has failed; empty if it has not."""
        return self._failure(name) or self._failed_lanes.get(self._find(name).view.lane, "")

    def want(self, name: str, subscription: EpochSubscription) -> None:
        """Call `EpochSubscription.began` with a snapshot as soon as there is one."""
        state = self._find(name)
        state.wanting[subscription] = None
        if state.view.lane != "spark" and not state.is_open:
            self._pin(state)

    def read(self, name: str, begin: int, end: int, done: Callable[[Past], None]) -> None:
        """Read the changes of a view in ``(begin, end]`` and call ``done`` with them; one read runs at a time."""
        state, epochs = self._find(name), self._epochs

        def read() -> Any:
            return epochs.in_thread(lambda: epochs.history.read(state.view, state.since, begin, end))

        def failed(failure: Failure) -> None:
            self._log.failure("epochs after {epoch} of view {view} were not read", failure, epoch=begin, view=name)
            done(Past(begin, gone=f"epochs after {begin} cannot be read"))

        reading: Deferred[Past] = self._read_lock.run(read)
        reading.addCallbacks(done, failed)

    def header(self, name: str, kind: Kind, begin: int, end: int, cuts: Mapping[str, Cut]) -> FrameHeader:
        """Return the header of a message about a span of epochs."""
        feed = {origin: (cut.session, cut.sequence) for origin, cut in cuts.items()}
        return FrameHeader(kind, name, begin, end, feed, self._now_ns())

    def _find(self, name: str) -> _ViewState:
        """Return the state of an existing view, or of a dropped view that is still followed up to its end."""
        state = self._views.get(name)
        return state or next(state for _, state, _ in self._ending if state.view.name == name)

    def _states(self, lane: Lane) -> list[_ViewState]:
        return [state for state in self._views.values() if state.view.lane == lane]

    def _publish_epoch(
        self, followed: Sequence[_ViewState], footer: Footer, rows: Mapping[str, Sequence[pa.RecordBatch]]
    ) -> None:
        for state in followed:
            name = state.view.name
            batches = rows.get(section_of(state.view))
            changes = pa.Table.from_batches(batches) if batches else None
            is_anew = f"{ANEW}{name}" in footer.attributes
            self._publish(state, changes, footer.attributes.get(f"failed/{name}", ""), is_anew=is_anew)

    def _publish(self, state: _ViewState, rows: pa.Table | None, failed: str, *, is_anew: bool = False) -> None:
        """Send a view's changes up to the newest epoch, if there are any, to the subscribers that follow the view."""
        if failed:
            self._send(state, self._message(state, "error", None, failed))
        elif is_anew:
            for subscription in tuple(state.followers):
                subscription.begin_again(state.view.name, f"the view was refilled at epoch {self._epoch(state)}")
                self._beginning[subscription] = None
        elif rows is not None and rows.num_rows:
            self._send(state, self._message(state, "changes", rows))

    def _settle(self, state: _ViewState) -> int:
        if state.delivered < self._epoch(state):
            message = self._message(state, "progress", None)
            state.delivered = message.header.to_epoch
            for subscription in tuple(state.followers):
                if subscription.changed(state.view.name, message):
                    self._touched[subscription] = None
        return state.delivered

    def _send(self, state: _ViewState, message: Message) -> None:
        state.stream.add(message)
        state.delivered = message.header.to_epoch
        for subscription in tuple(state.followers):
            if subscription.changed(state.view.name, message):
                self._touched[subscription] = None

    def _flush(self) -> None:
        """Mark the end of messages that belong together; afterwards subscriptions that begin again catch up."""
        touched, self._touched = self._touched, {}
        for subscription in touched:
            subscription.flush()
        beginning, self._beginning = self._beginning, {}
        for subscription in beginning:  # only now: a snapshot must not contain changes that are still to be sent
            subscription.catch_up()

    def _message(self, state: _ViewState, kind: Kind, rows: pa.Table | None, reason: str = "") -> Message:
        epoch, cuts = self._at[state.view.lane]
        header = self.header(state.view.name, kind, state.delivered, epoch, cuts)
        return Message(msgspec.structs.replace(header, reason=reason), rows)

    def _end(self, state: _ViewState, reason: str) -> None:
        message = self._message(state, "error", None, reason)
        for subscription in tuple(state.followers):
            if subscription.dropped(state.view.name, message):
                self.unsubscribe(subscription)

    def _epoch(self, state: _ViewState) -> int:
        return self._at[state.view.lane][0]

    def _pin(self, state: _ViewState) -> None:
        """Take the snapshot that subscribers wait for; the view must be at the end of an epoch."""
        if state.wanting and (state.pinned is None or state.pinned.header.to_epoch < state.closed):
            state.pinned = self._snapshot(state, state.closed, self._closed_cuts.get(state.view.lane, {}))

    def _snapshot(self, state: _ViewState, epoch: int, cuts: Mapping[str, Cut]) -> Message:
        name = state.view.name
        if failure := self.failure(name):
            return Message(msgspec.structs.replace(self.header(name, "error", 0, epoch, cuts), reason=failure))
        return Message(self.header(name, "snapshot", 0, epoch, cuts), self._rows(name))

    def _begin_wanting(self, state: _ViewState, snapshot: Message) -> None:
        wanting, state.wanting, state.pinned = tuple(state.wanting), {}, None
        self._settle(state)
        self._flush()
        for subscription in wanting:
            subscription.began(state.view.name, snapshot)
