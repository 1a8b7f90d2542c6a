"""Upstreams of a live runtime: their followers, their states, and the acknowledgement of their epochs."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from deltabook.wire.service import UpstreamLine
from runtime.compiler import TOUCHES
from runtime.engine.ingest import EpochWriter
from runtime.engine.ingest.upstream import kept_names, kept_position
from runtime.epochs import LOCAL_DISK, Disk, Footer
from runtime.service.errors import ServiceError
from runtime.state import ObjectSpace, PersistedValue, Schema
from runtime.upstreams import Beat, Consumer, Consumers, Follower, Symbols, UpstreamLog, read_beat

__all__ = ["FIRST_NUMBER", "UpstreamConfig", "Upstreams", "begin_symbols", "check_upstreams", "missing_of"]

FIRST_NUMBER: Final = -1
"""Number of the first upstream's origin. The numbers of further upstreams count down from it; those of the feed and of
readers count up from 0."""
_NAMING: Final = "upstreams/naming"
_SILENT_SECONDS: Final = 10.0
_State = Literal["waiting", "reading", "silent", "disconnected", "paused"]


class UpstreamConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Configuration of another runtime whose epochs are read."""

    name: str
    """Name of the upstream, the prefix of its origins: ``NAME/feed``."""
    directory: Path
    """Run directory of the upstream, which need not exist yet."""


class _Upstream:
    """State of one upstream.

    Belongs to the reactor's thread, except `epoch` and `lag`, which the sealing thread owns.
    """

    def __init__(self, config: UpstreamConfig, follower: Follower, epoch: int) -> None:
        self.config = config
        self.follower = follower
        self.epoch = epoch
        """Newest epoch of the upstream that is committed here."""
        self.acknowledged = epoch
        """Newest epoch that was acknowledged to the upstream as committed here."""
        self.is_acknowledging = False
        """True while an acknowledgement is being written."""
        self.state: _State = "waiting"
        self.beat: Beat | None = None
        """Last beat that was read; None if there is none."""
        self.is_reading = False
        """True while a beat is being read."""
        self.beat_ns = 0
        """Time of the last beat, by the upstream's clock."""
        self.beat_s: float | None = None
        """Time at which the last beat was first seen, by the reactor's clock; None before the first check."""
        self.lag: tuple[float, int] | None = None
        """Lag in milliseconds, and the time at which it was measured; None before the first epoch."""


class Upstreams:
    """All upstreams of one runtime, created before the ingest. Belongs to the reactor's thread, except `sealed`."""

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        upstreams: Sequence[UpstreamConfig],
        directory: Path,
        writer: EpochWriter,
        *,
        symbols: Symbols,
        now_ns: Callable[[], int],
        in_thread: Callable[[Callable[[], Any]], Deferred[Any]],
        disk: Disk = LOCAL_DISK,
        follow: Callable[[UpstreamLog], Follower] = Follower,
    ) -> None:
        """Create the followers.

        ``upstreams`` must have passed `check_upstreams`; ``directory`` is the run directory of this runtime; ``follow``
        creates the follower of a log.
        """
        self._disk = disk
        self._reactor = reactor
        self._directory = directory
        self._now_ns = now_ns
        self._in_thread = in_thread
        self._identity = writer.log.identity()
        self._upstreams: dict[str, _Upstream] = {}
        for place, config in enumerate(upstreams):
            start = kept_position(writer.space, config.name)
            epoch = start.epoch if start else -1
            log = UpstreamLog(
                FIRST_NUMBER - place,
                config.name,
                config.directory,
                start,
                symbols=symbols,
                disk=disk,
                on_found=lambda config=config, epoch=epoch: self._register(config, epoch),  # type: ignore[misc]
            )
            self._upstreams[config.name] = _Upstream(config, follow(log), epoch)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the upstreams."""
        return tuple(self._upstreams)

    @property
    def followers(self) -> tuple[Follower, ...]:
        """Followers of the upstreams, which the ingest opens."""
        return tuple(upstream.follower for upstream in self._upstreams.values())

    @property
    def silent(self) -> tuple[str, ...]:
        """Names of upstreams whose state is not ``reading``: they are not read, or their own inputs are lost."""
        return tuple(name for name, upstream in self._upstreams.items() if upstream.state != "reading")

    @property
    def messages(self) -> int:
        """Number of messages of all upstreams since the start."""
        return sum(upstream.follower.figures.messages for upstream in self._upstreams.values())

    def pause(self, is_paused: bool) -> None:
        """Pause or resume all upstreams."""
        for upstream in self._upstreams.values():
            upstream.follower.shut(is_paused)

    def sealed(self, footer: Footer) -> None:
        """Record a sealed epoch; called by the thread that seals."""
        for name, upstream in self._upstreams.items():
            cut = footer.cuts.get(name)
            if cut is not None and cut.sequence > upstream.epoch:
                upstream.epoch = cut.sequence
                upstream.lag = (self._now_ns() - upstream.follower.figures.taken_ns) / 1e6, self._now_ns()

    def beat(self) -> None:
        """Update the states, and acknowledge committed epochs to the upstreams; called every second.

        The states follow from the beats that were read last. This call does not wait for a beat to be read, because an
        upstream's disk may hang.
        """
        for upstream in self._upstreams.values():
            if not upstream.is_reading:
                self._read_beat(upstream)
            self._check(upstream)
            if upstream.epoch > upstream.acknowledged and not upstream.is_acknowledging:
                self._acknowledge(upstream, upstream.epoch)

    @property
    def lag_ms(self) -> float | None:
        """Lag of the slowest upstream in milliseconds; None if no epochs have arrived for a while."""
        return max((line.lag_ms for line in self.status().values() if line.lag_ms is not None), default=None)

    def status(self) -> dict[str, UpstreamLine]:
        """Return the status of all upstreams, by name."""
        return {name: self._status(upstream) for name, upstream in self._upstreams.items()}

    def _status(self, upstream: _Upstream) -> UpstreamLine:
        figures, now_ns = upstream.follower.figures, self._now_ns()
        lag_epochs = max(0, figures.newest - upstream.epoch)
        lag_ms = None
        if upstream.lag is not None and (lag_epochs or now_ns - upstream.lag[1] <= _SILENT_SECONDS * 1e9):
            waits_ms = (now_ns - upstream.lag[1]) / 1e6 if lag_epochs else 0.0
            lag_ms = round(max(upstream.lag[0], waits_ms), 1)
        return UpstreamLine(
            directory=str(upstream.config.directory),
            state=upstream.state,
            epoch=upstream.epoch,
            newest=figures.newest,
            lag_epochs=lag_epochs,
            lag_ms=lag_ms,
            epochs=figures.epochs,
            messages=figures.messages,
            rows=figures.rows,
            bytes=figures.bytes,
            busy_s=round(figures.busy_s, 3),
        )

    def _read_beat(self, upstream: _Upstream) -> None:
        upstream.is_reading = True

        def over(result: Beat | Failure | None) -> None:
            upstream.is_reading = False
            if isinstance(result, Failure):
                self._log.failure("the beat of upstream {name} was not read", failure=result, name=upstream.config.name)
            else:
                upstream.beat = result

        self._in_thread(lambda: read_beat(upstream.config.directory)).addBoth(over)

    def _check(self, upstream: _Upstream) -> None:
        """Update the state of an upstream.

        Silence is measured by this machine's monotonic clock, because the clocks of two machines may differ.
        """
        now_s, beat = self._reactor.seconds(), upstream.beat
        if upstream.beat_s is None or (beat is not None and beat.time_ns != upstream.beat_ns):
            upstream.beat_s = now_s
        state: _State = "reading"
        if beat is not None:
            upstream.beat_ns = beat.time_ns
            state = "paused" if beat.is_paused else "reading" if beat.is_connected else "disconnected"
        if upstream.follower.figures.newest < 0:
            state = "waiting"
        elif now_s - upstream.beat_s > _SILENT_SECONDS:
            state = "silent"
        if state != upstream.state:
            upstream.state = state
            log = self._log.info if state == "reading" else self._log.warn
            log(
                "upstream {name} at {directory} is {state}",
                name=upstream.config.name, directory=upstream.config.directory, state=state,
            )  # fmt: skip

    def _acknowledge(self, upstream: _Upstream, epoch: int) -> None:
        """Notify an upstream that its epochs up to ``epoch`` are committed here and may be retired."""
        upstream.is_acknowledging = True

        def acknowledged(_: object) -> None:
            upstream.acknowledged = epoch

        def failed(failure: Failure) -> None:
            self._log.error(
                "upstream {name} cannot be notified of committed epochs, and retains more than is needed: {reason}",
                name=upstream.config.name, reason=failure.getErrorMessage(),
            )  # fmt: skip

        def over(_: object) -> None:
            upstream.is_acknowledging = False

        config = upstream.config
        self._in_thread(lambda: self._register(config, epoch)).addCallbacks(acknowledged, failed).addBoth(over)

    def _register(self, config: UpstreamConfig, epoch: int) -> None:
        consumer = Consumer(
            self._identity, str(self._directory.resolve()), socket.gethostname(), config.name, epoch, self._now_ns()
        )
        Consumers(config.directory, self._disk).put(consumer)


def check_upstreams(upstreams: Sequence[UpstreamConfig], directory: Path, kept: Sequence[str]) -> None:
    """Raise `ServiceError` for upstreams with equal names or directories, and if one of ``kept`` is missing.

    ``directory`` is the run directory of this runtime, which no upstream may have; ``kept`` are the names of the
    upstreams that the runtime has read.
    """
    names = [upstream.name for upstream in upstreams]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ServiceError(f"expected upstreams whose names differ, was {min(twice)} twice")
    places: dict[Path, str] = {directory.resolve(): "this runtime's own"}
    for upstream in upstreams:
        other = places.setdefault(upstream.directory.resolve(), f"that of upstream {upstream.name}")
        if other != f"that of upstream {upstream.name}":
            raise ServiceError(
                f"expected a directory of its own for upstream {upstream.name}, was {upstream.directory}, {other}"
            )
    missing = [name for name in kept if name not in names]
    if missing:
        raise ServiceError(
            f"expected --upstream {missing[0]}=DIR again, whose rows are in {directory}, was none; the rows of an "
            "upstream can only be left out with a new --dir"
        )


def missing_of(upstreams: Sequence[UpstreamConfig]) -> dict[str, str]:
    """Return the relations that upstreams do not have, each with the reason why a derived stream cannot read it."""
    if not upstreams:
        return {}
    names = ", ".join(upstream.name for upstream in upstreams)
    return {
        TOUCHES.name: f"expected a stream that does not read {TOUCHES.name}, as the upstreams of this runtime "
        f"({names}) pass on the changes of relations by epoch, without the best prices within an epoch: create the "
        "stream at the runtimes that read the feed"
    }


def begin_symbols(space: ObjectSpace, symbols: Symbols, directory: Path) -> None:
    """Record the naming of upstreams' symbols; raise `ServiceError` if existing rows are named differently.

    A row that is inserted under one name and deleted under another would stay for ever. All namings except ``prefixed``
    may replace each other, because they give the same names.
    """
    kept = space.get_or_create(PersistedValue[str], _NAMING, Schema(str), initial="")
    holds_any = any(kept_position(space, name) is not None for name in kept_names(space))
    if holds_any and kept.value and kept.value != symbols and "prefixed" in {kept.value, symbols}:
        raise ServiceError(
            f"expected --upstream-symbols {kept.value}, by which rows in {directory} are named already, was {symbols}"
        )
    if kept.value != symbols:
        kept.value = symbols
