"""Recovery of a market: from a snapshot, or from the first input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from exchange_server.errors import JournalDamagedError
from exchange_server.journal.segments import SegmentHead
from exchange_server.journal.snapshots import SNAPSHOT_VERSION, Snapshot, SnapshotDirectory
from exchange_server.matching.inputs import MarketRules
from exchange_server.matching.market import AccountProtocol, Market
from exchange_server.matching.outputs import FeedEncoder, Now

__all__ = ["MarketStarts"]


class MarketStarts:
    """Makes markets as they were at a snapshot or before the first input of a session.

    All of them write through the same encoders and clock: only the last one that was made can be used.
    """

    def __init__(
        self,
        rules: MarketRules,
        encoders: Mapping[str, FeedEncoder],
        protocols: Sequence[AccountProtocol],
        now: Now | None = None,
        observers: Sequence[FeedEncoder] = (),
    ) -> None:
        """The encoders must not have written anything. ``observers`` are notified of the feed like them, and are in no
        snapshot."""
        self._rules = rules
        self._encoders = encoders
        self._protocols = protocols
        self._observers = tuple(observers)
        self._now = now or Now()
        self._fresh = self._states()
        self.passed_over: list[str] = []
        """Snapshots that could not be used, and why."""

    def _states(self) -> dict[str, bytes]:
        return {name: msgspec.msgpack.encode(encoder.state()) for name, encoder in self._encoders.items()}

    def snapshot(self, session: str, inputs: int, market: Market) -> Snapshot:
        """Return the snapshot of a market that has applied so many inputs, without positions of streams."""
        return Snapshot(
            SNAPSHOT_VERSION, session, inputs, market.last_time_ns, market.state(), self._states(), streams={}
        )

    def nearest(
        self,
        head: SegmentHead,
        snapshots: SnapshotDirectory,
        is_wanted: Callable[[Snapshot], bool] = lambda snapshot: True,
        missing: Callable[[Snapshot], str] = lambda snapshot: "",
    ) -> tuple[Market, Snapshot | None]:
        """The market of the newest snapshot that is wanted and good, or the one before the first input.

        ``missing`` says why a snapshot cannot be used, empty if it can. Raises `JournalDamagedError` if the journal
        does not go back to where a market could begin.
        """
        nearest = None
        for snapshot in filter(is_wanted, snapshots.newest()):
            why = self._unfit(snapshot, head) or missing(snapshot)
            if not why:
                try:
                    nearest = self._restored(snapshot), snapshot
                    break
                except (msgspec.MsgspecError, ValueError, LookupError, TypeError, AttributeError) as error:
                    why = f"{type(error).__name__} {error}"
            self.passed_over.append(f"{snapshots.path(snapshot.inputs)}: {why}")
        self.passed_over += [f"{path}: {why}" for path, why in snapshots.damaged.items()]
        if nearest is not None:
            return nearest
        if head.first > 1:
            reasons = "; ".join(self.passed_over) or "none is there"
            raise JournalDamagedError(
                f"expected a snapshot to begin with, since inputs before {head.first} are gone: {reasons}"
            )
        for name, state in self._fresh.items():
            self._encoders[name].restore(msgspec.msgpack.decode(state))
        self._now.time_ns = 0
        return Market(self._rules, self._outputs(), self._protocols, self._now), None

    def _unfit(self, snapshot: Snapshot, head: SegmentHead) -> str:
        if snapshot.session != head.session:
            return f"expected session {head.session}, was {snapshot.session}"
        if snapshot.inputs + 1 < head.first:
            return f"expected input {snapshot.inputs + 1}, was a journal that begins with {head.first}"
        if without := sorted(set(self._encoders) - set(snapshot.encoders)):
            return f"expected the feeds {', '.join(without)} in it, were {', '.join(snapshot.encoders) or 'none'}"
        return ""

    def _restored(self, snapshot: Snapshot) -> Market:
        for name, encoder in self._encoders.items():
            encoder.restore(msgspec.msgpack.decode(snapshot.encoders[name]))
        return Market.restore(self._rules, snapshot.market, self._outputs(), self._protocols, self._now)

    def _outputs(self) -> tuple[FeedEncoder, ...]:
        return (*self._encoders.values(), *self._observers)
