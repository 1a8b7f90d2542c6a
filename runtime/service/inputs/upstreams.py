"""Upstreams of a live runtime: their followers, their states, and the acknowledgement of committed epochs to them."""

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
"""Number of the first upstream's origin; further ones count down, while the feed and readers count up from 0."""
_NAMING: Final = "upstreams/naming"
_SILENT_SECONDS: Final = 10.0
_State = Literal["waiting", "reading", "silent", "disconnected", "paused"]


class UpstreamConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Configuration of another runtime whose epochs are read."""

    name: str
    """Name of the upstream, the prefix of its origins: ``NAME/feed``."""
    directory: Path
    """Run directory of the upstream, which need not exist yet."""


class _Known:
    """State of one upstream.

    Belongs to the reactor's thread, except `epoch` and `lag`, which the sealing thread owns.
    """

    def __init__(self, config: UpstreamConfig, follower: Follower, epoch: int) -> None:
        self.config = config
        self.follower = follower
        self.epoch = epoch
        self.announced = epoch
        self.is_announcing = False
        self.state: _State = "waiting"
        self.beat: Beat | None = None
        self.is_reading = False
        self.beat_ns = 0
        self.beat_s: float | None = None
        self.lag: tuple[float, int] | None = None  # lag in ms, and the time at which it was measured


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
        self._known: dict[str, _Known] = {}
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
            self._known[config.name] = _Known(config, follow(log), epoch)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the upstreams."""
        return tuple(self._known)

    @property
    def followers(self) -> tuple[Follower, ...]:
        """Followers of the upstreams, which the ingest opens."""
        return tuple(known.follower for known in self._known.values())

    @property
    def silent(self) -> tuple[str, ...]:
        """Names of upstreams that are not being read, or whose own inputs are disconnected."""
        return tuple(name for name, known in self._known.items() if known.state != "reading")

    @property
    def messages(self) -> int:
        """Number of messages of all upstreams since the start."""
        return sum(known.follower.figures.messages for known in self._known.values())

    def pause(self, is_paused: bool) -> None:
        """Pause or resume all upstreams."""
        for known in self._known.values():
            known.follower.shut(is_paused)

    def sealed(self, footer: Footer) -> None:
        """Record a sealed epoch; called by the thread that seals."""
        for name, known in self._known.items():
            cut = footer.cuts.get(name)
            if cut is not None and cut.sequence > known.epoch:
                known.epoch = cut.sequence
                known.lag = (self._now_ns() - known.follower.figures.taken_ns) / 1e6, self._now_ns()

    def beat(self) -> None:
        """Update the states, and acknowledge committed epochs to the upstreams; called every second.

        The states are those of the last beats that were read: an upstream's disk may hang, so that this call does not
        wait for it.
        """
        for known in self._known.values():
            if not known.is_reading:
                self._read_beat(known)
            self._check(known)
            if known.epoch > known.announced and not known.is_announcing:
                self._announce(known, known.epoch)

    @property
    def lag_ms(self) -> float | None:
        """Lag of the slowest upstream in milliseconds; None if no epochs have arrived for a while."""
        return max((line.lag_ms for line in self.status().values() if line.lag_ms is not None), default=None)

    def status(self) -> dict[str, UpstreamLine]:
        """Return the status of all upstreams, by name."""
        return {name: self._status(known) for name, known in self._known.items()}

    def _status(self, known: _Known) -> UpstreamLine:
        figures, now_ns = known.follower.figures, self._now_ns()
        lag_epochs = max(0, figures.newest - known.epoch)
        lag_ms = None
        if known.lag is not None and (lag_epochs or now_ns - known.lag[1] <= _SILENT_SECONDS * 1e9):
            waits_ms = (now_ns - known.lag[1]) / 1e6 if lag_epochs else 0.0
            lag_ms = round(max(known.lag[0], waits_ms), 1)
        return UpstreamLine(
            directory=str(known.config.directory),
            state=known.state,
            epoch=known.epoch,
            newest=figures.newest,
            lag_epochs=lag_epochs,
            lag_ms=lag_ms,
            epochs=figures.epochs,
            messages=figures.messages,
            rows=figures.rows,
            bytes=figures.bytes,
            busy_s=round(figures.busy_s, 3),
        )

    def _read_beat(self, known: _Known) -> None:
        known.is_reading = True

        def over(result: Beat | Failure | None) -> None:
            known.is_reading = False
            if isinstance(result, Failure):
                self._log.failure("the beat of upstream {name} was not read", failure=result, name=known.config.name)
            else:
                known.beat = result

        self._in_thread(lambda: read_beat(known.config.directory)).addBoth(over)

    def _check(self, known: _Known) -> None:
        """Update the state of an upstream by this machine's monotonic clock: clocks of two machines may differ."""
        now_s, beat = self._reactor.seconds(), known.beat
        if known.beat_s is None or (beat is not None and beat.time_ns != known.beat_ns):
            known.beat_s = now_s
        state: _State = "reading"
        if beat is not None:
            known.beat_ns = beat.time_ns
            state = "paused" if beat.is_paused else "reading" if beat.is_connected else "disconnected"
        if known.follower.figures.newest < 0:
            state = "waiting"
        elif now_s - known.beat_s > _SILENT_SECONDS:
            state = "silent"
        if state != known.state:
            known.state = state
            log = self._log.info if state == "reading" else self._log.warn
            log(
                "upstream {name} at {directory} is {state}",
                name=known.config.name, directory=known.config.directory, state=state,
            )  # fmt: skip

    def _announce(self, known: _Known, epoch: int) -> None:
        known.is_announcing = True

        def acknowledged(_: object) -> None:
            known.announced = epoch

        def failed(failure: Failure) -> None:
            self._log.error(
                "upstream {name} cannot be given the position of its reader, and retains more than it needs: {reason}",
                name=known.config.name, reason=failure.getErrorMessage(),
            )  # fmt: skip

        def over(_: object) -> None:
            known.is_announcing = False

        config = known.config
        self._in_thread(lambda: self._register(config, epoch)).addCallbacks(acknowledged, failed).addBoth(over)

    def _register(self, config: UpstreamConfig, epoch: int) -> None:
        consumer = Consumer(
            self._identity, str(self._directory.resolve()), socket.gethostname(), config.name, epoch, self._now_ns()
        )
        Consumers(config.directory, self._disk).put(consumer)


def check_upstreams(upstreams: Sequence[UpstreamConfig], directory: Path, kept: Sequence[str]) -> None:
    """Raise `ServiceError` if upstreams exclude each other, or if one of ``kept``, those read before, is missing."""
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
            f"expected --upstream {missing[0]}=DIR again, whose rows are in {directory}, was none; what an upstream "
            "has brought leaves with a new --dir only"
        )


def missing_of(upstreams: Sequence[UpstreamConfig]) -> dict[str, str]:
    """Return the relations that upstreams do not have → the reason why a derived stream cannot read them."""
    if not upstreams:
        return {}
    names = ", ".join(upstream.name for upstream in upstreams)
    return {
        TOUCHES.name: f"expected a stream that does not read {TOUCHES.name}, as the upstreams of this runtime "
        f"({names}) hand on relations alone, whose epochs do not say what the best prices were in between: create the "
        "stream at the runtimes that read the feed"
    }


def begin_symbols(space: ObjectSpace, symbols: Symbols, directory: Path) -> None:
    """Record the naming of upstreams' symbols; raise `ServiceError` if existing rows are named differently.

    A row that is deleted under another name than it was inserted with would stay for ever. All namings except
    ``prefixed`` may replace each other, because they write names alike.
    """
    kept = space.get_or_create(PersistedValue[str], _NAMING, Schema(str), initial="")
    holds_any = any(kept_position(space, name) is not None for name in kept_names(space))
    if holds_any and kept.value and kept.value != symbols and "prefixed" in {kept.value, symbols}:
        raise ServiceError(
            f"expected --upstream-symbols {kept.value}, as the rows in {directory} are named, was {symbols}"
        )
    if kept.value != symbols:
        kept.value = symbols
