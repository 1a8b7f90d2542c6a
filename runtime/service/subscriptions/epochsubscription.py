"""One subscriber who follows views epoch by epoch, each exactly once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from deltabook.wire.results import FrameHeader
from runtime.service.subscriptions.history import Past
from runtime.service.subscriptions.message import Message
from runtime.service.subscriptions.subscription import Listener, Source, Subscription

__all__ = ["EpochSource", "EpochSubscription"]


class EpochSource(Source, Protocol):
    """Committed epochs."""

    def snapshot(self, name: str) -> Message | None:
        """A view's full result at the newest epoch; None if it is not at the end of an epoch: see `want`."""

    def told(self, name: str) -> int:
        """Who follows a view has heard everything up to here."""

    def settle(self, name: str) -> int:
        """Bring all who follow a view to the newest epoch, which it gives."""

    def failure(self, name: str) -> str:
        """Why a view has failed; empty if it has not."""

    def want(self, name: str, subscription: EpochSubscription) -> None:
        """Call `EpochSubscription.began` with a snapshot as soon as there is one."""

    def read(self, name: str, begin: int, end: int, done: Callable[[Past], None]) -> None:
        """Have the changes of a view in ``(begin, end]`` read."""

    def header(self, name: str, kind: Any, begin: int, end: int, cuts: Mapping[str, Any]) -> FrameHeader:
        """Of a message about a span of epochs."""


class EpochSubscription(Subscription):
    """Every view has a position, the epoch up to which the subscriber has heard of it; spans follow each other.

    A view that is not followed gets what is behind its position: from the stream in which it waits, from the logs where
    that does not reach back, or, where these do not either, a snapshot that says why.
    """

    _source: EpochSource

    def __init__(self, names: Sequence[str], listener: Listener, source: EpochSource, start: Mapping[str, int]) -> None:
        super().__init__(names, listener, source)
        self._at = dict(start)
        """Of views that are not followed; those that are not here begin with a snapshot."""
        self._goal: dict[str, int] = {}
        """Of views that wait: up to here the logs are needed, the stream goes on from here."""
        self._why: dict[str, str] = {}
        """Why a view begins with a snapshot."""
        self._busy: dict[str, object] = {}
        """Views of which something is on its way, from the logs or from the end of the open epoch."""
        self._is_reading = False
        """Whether the logs are read for it: for one view at a time, so that no more than that waits for room."""
        self._ready: dict[str, Message] = {}
        """What was read of a view, until there is room for it."""

    def began(self, name: str, snapshot: Message) -> None:
        """Here is the snapshot at the newest epoch, where the view's stream is too."""
        if self._busy.pop(name, None) is None or self._full:
            return  # it would be kept for nobody knows how long; there will be another one when there is room
        self._followed.add(name)
        self._listener.write(self._explained(name, snapshot))
        self._listener.flush()

    def begin_again(self, name: str, reason: str) -> None:
        """What the subscriber knows of a view is not what the epochs go on with; `catch_up` sends a snapshot."""
        if name in self._names:
            self._forget(name)
            self._why[name] = reason

    def _wait(self, name: str) -> None:
        self._at[name] = self._goal[name] = self._source.told(name)
        super()._wait(name)

    def _forget(self, name: str) -> None:
        super()._forget(name)
        for kept in (self._at, self._goal, self._why, self._busy, self._ready):
            kept.pop(name, None)

    def _due(self, name: str) -> list[Message]:
        """What there is now; the view is followed afterwards, or something is on its way."""
        if name in self._busy:
            return []
        ready = self._ready.pop(name, None)
        found = [] if ready is None else [ready]
        if reason := self._source.failure(name):
            return [*found, self._failed(name, reason)]
        return [*found, *(self._begin(name) if name not in self._at else self._go_on(name))]

    def _begin(self, name: str) -> list[Message]:
        snapshot = self._source.snapshot(name)
        if snapshot is None:
            self._busy[name] = object()
            self._source.want(name, self)
            return []
        self._source.settle(name)
        self._followed.add(name)
        return [self._explained(name, snapshot)]

    def _go_on(self, name: str) -> list[Message]:
        if name not in self._waiting:  # what comes from now on waits, while the logs are read
            self._source.settle(name)
            position = self._at[name]
            self._wait(name)
            self._at[name] = position
        position, goal = self._at[name], self._goal[name]
        if position > goal:
            self._forget(name)
            self._why[name] = f"expected an epoch of this run, the newest is {goal}, was {position}"
            return self._begin(name)
        if position < goal and self._is_reading:
            return []
        if position < goal:
            self._is_reading = True
            token = self._busy[name] = object()
            self._source.read(name, position, goal, lambda past: self._was_read(name, token, past))
            return []
        taken = self._waiting.pop(name).take(self)
        if taken is None:  # more than is kept for those who wait: the logs have it
            return self._go_on(name)
        self._followed.add(name)
        return self._tiled(name, position, taken)

    def _tiled(self, name: str, position: int, messages: list[Message]) -> list[Message]:
        """From the position to where the stream is, without a gap."""
        found = [message.since(position) if not place else message for place, message in enumerate(messages)]
        reached = found[-1].header.to_epoch if found else position
        if reached < (told := self._source.told(name)):
            found.append(Message(self._source.header(name, "progress", reached, told, {})))
        return found

    def _was_read(self, name: str, token: object, past: Past) -> None:
        self._is_reading = False
        is_awaited = self._busy.get(name) is token
        if is_awaited:
            del self._busy[name]
        if is_awaited and past.gone:
            self._forget(name)
            self._why[name] = past.gone
        elif is_awaited:
            kind = "progress" if past.rows is None else "changes"
            header = self._source.header(name, kind, self._at[name], past.reached, past.cuts)
            self._ready[name] = Message(header, past.rows)
            self._at[name] = past.reached
        if not self._full:
            self.catch_up()

    def _failed(self, name: str, reason: str) -> Message:
        position = self._at.get(name, 0)
        self._forget(name)
        self._followed.add(name)
        header = self._source.header(name, "error", position, self._source.told(name), {})
        return Message(msgspec.structs.replace(header, reason=reason))

    def _explained(self, name: str, snapshot: Message) -> Message:
        reason = self._why.pop(name, "")
        return Message(msgspec.structs.replace(snapshot.header, reason=reason), snapshot.rows) if reason else snapshot
