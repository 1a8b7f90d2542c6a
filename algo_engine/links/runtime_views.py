"""Adds views to a runtime over HTTP, follows them, and drops the views that it added.

A view may read views that were requested before it. It is added when the runtime has answered the requests for those
views, and dropped before those views are dropped. An existing view is followed if it has the same SQL, and never
dropped, since it belongs to another owner.

A view is written into a file before it is requested, and removed from the file when it is refused or dropped. After a
run was killed, the next run reads the file. It can then replace and drop those views of the file that it requests
itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from zlib import crc32

import msgspec
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.error import ConnectError
from twisted.logger import Logger
from twisted.python.failure import Failure

from algo_engine.clocks import Clock
from algo_engine.links.backoff import LinkTimes, Retry
from algo_engine.links.results import ResultsLink
from algo_engine.requested import same_sql
from algo_engine.strategy import Lane
from deltabook.wire.catalogue import AddViews, NewView
from deltabook.wire.directories import set_aside
from deltabook.wire.http.reactor import ReactorPort

__all__ = ["RuntimeViews"]

_REASON_BYTES: Final = 1_000
"""Number of bytes of an answer that are kept as its reason."""
_WORD: Final = re.compile(r"\w+")
_TOO_MANY: Final = 429
"""Status of the runtime's answer to too many requests; a later request may be accepted."""
_MOST_SECONDS: Final = 60.0
"""Longest time in seconds that the runtime waits for the first version of a view before it answers."""


class _Offer(msgspec.Struct, frozen=True):
    name: str
    sql: str = ""


class _Owned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file: views that were requested and are neither refused nor dropped yet."""

    views: dict[str, str]
    """SQL of each view."""
    checksum: int
    """CRC-32 of the views as JSON."""

    @classmethod
    def of(cls, views: dict[str, str]) -> _Owned:
        """Return the views with their checksum."""
        return cls(views, crc32(msgspec.json.encode(views)))


class RuntimeViews:
    """The `algo_engine.requested.ViewLink` of a runtime."""

    _log = Logger()

    def __init__(
        self,
        *,
        port: ReactorPort,
        file: Path,
        make_link: Callable[[str], ResultsLink],
        clock: Clock,
        times: LinkTimes,
        on_failure: Callable[[Exception], None],
    ) -> None:
        """Create a link; ``file`` stores the added views; ``make_link`` makes the link that follows one view."""
        self._port, self._file, self._make_link = port, file, make_link
        self._clock, self._times, self._on_failure = clock, times, on_failure
        self._links: dict[str, ResultsLink] = {}
        self._retries: dict[str, Retry] = {}
        self._owned = self._read()
        self._unanswered: set[str] = set()
        """Views of the file whose requests the runtime has not answered: it may refuse such a view, if the view belongs
        to another owner.
        """
        self._drops: dict[str, Deferred[Any]] = {}
        """Drops that the runtime has not answered for."""
        self._waiting: dict[str, tuple[str, Callable[[], None]]] = {}
        """SQL and delayed request of the views that may read a view being added."""

    def add(self, view: str, sql: str, lane: Lane, done: Callable[[str], None]) -> None:
        """See `ViewLink.add`; a runtime that cannot be reached is asked again for a while."""
        body = msgspec.json.encode(AddViews((NewView(view, sql, lane=lane),), _MOST_SECONDS))
        retry = self._retries[view] = Retry(self._clock, self._times, "the runtime's catalogue", self._on_failure)

        def ask() -> None:
            if view not in self._owned:
                self._unanswered.add(view)
                try:
                    self._own(view, sql)
                except OSError as error:
                    self._on_failure(error)
                    return
            sent = self._port.begin("POST", "/v1/views", body)
            sent.addCallback(self._read_answer).addCallbacks(answered, unreachable).addErrback(failed)

        def unreachable(failure: Failure) -> None:
            if not isinstance(failure.value, ConnectError):
                self._unanswered.discard(view)  # the request may have arrived, and the view may exist
            if view in self._retries:
                retry.again(ask, failure.getErrorMessage())

        def failed(failure: Failure) -> None:
            # The file could not be written.
            self._on_failure(failure.value if isinstance(failure.value, Exception) else RuntimeError(str(failure)))

        def answered(answer: tuple[int, str]) -> None:
            code, reason = answer
            is_late = code >= 500 or code == _TOO_MANY
            if code < 400:
                self._unanswered.discard(view)
                self._own(view, sql)
            elif view in self._unanswered and (not is_late or view not in self._retries):
                self._unanswered.remove(view)
                self._disown(view)
            if view not in self._retries:
                if code < 400:
                    self.drop(view)  # no strategy wants the view any more: it was dropped while it was being added
            elif is_late:
                retry.again(ask, reason)
            elif code >= 400 and not same_sql(self._owned.get(view, sql), sql):
                # The view belongs to an earlier run, which was killed.
                self._remove(view).addCallbacks(lambda _: ask(), unreachable)
            elif code >= 400:
                self._compare(view, sql, reason, finish)
            else:
                finish("")

        def finish(reason: str) -> None:
            if self._retries.pop(view, None) is None:
                return
            if not reason:
                self._links[view] = self._make_link(view)
                self._links[view].start()
            done(reason)
            self._ask_waiting()

        self._waiting[view] = (sql, ask)
        self._ask_waiting()

    def _ask_waiting(self) -> None:
        """Request the delayed views that no longer read a view being added."""
        for view, (sql, ask) in tuple(self._waiting.items()):
            requested = self._retries.keys() - self._waiting.keys()
            if view not in self._waiting:
                continue  # requested meanwhile, as an answer came at once
            if view not in self._retries:
                del self._waiting[view]
            elif requested.isdisjoint(_words(sql)):
                del self._waiting[view]
                ask()

    def drop(self, view: str) -> None:
        """See `ViewLink.drop`."""
        retry, link = self._retries.pop(view, None), self._links.pop(view, None)
        if retry is not None:
            retry.cancel()
        if link is not None:
            link.stop()
        if view in self._owned and view not in self._unanswered:
            readers = [self._drops[name] for name in self._drops if view in _words(self._owned.get(name, ""))]
            dropped: Deferred[Any] = DeferredList(readers).addCallback(lambda _: self._remove(view))
            dropped.addErrback(
                lambda failure: self._log.warn("a view is not dropped: {reason}", reason=failure.getErrorMessage())
            )
            self._drops[view] = dropped
            dropped.addCallback(lambda _: self._forget_drop(view, dropped))
        self._ask_waiting()

    def _forget_drop(self, view: str, dropped: Deferred[Any]) -> None:
        if self._drops.get(view) is dropped:
            del self._drops[view]

    def stop(self) -> Deferred[Any]:
        """Stop following all views.

        Return a deferred that fires when the runtime has answered for every dropped view.
        """
        for link in self._links.values():
            link.stop()
        for retry in self._retries.values():
            retry.cancel()
        self._links.clear()
        self._retries.clear()
        self._waiting.clear()
        return DeferredList(list(self._drops.values()))

    def _compare(self, view: str, sql: str, refusal: str, finish: Callable[[str], None]) -> None:
        """Compare a refused view with the existing one; accept it if the SQL is the same."""

        def listed(answer: tuple[int, str]) -> None:
            try:
                offers = {offer.name: offer.sql for offer in msgspec.json.decode(answer[1], type=list[_Offer])}
            except (msgspec.DecodeError, UnicodeDecodeError):
                offers = {}
            is_same = view in self._owned or same_sql(offers.get(view, ""), sql)
            finish("" if view in offers and is_same else refusal)

        sent = self._port.begin("GET", "/v1/views")
        sent.addCallback(self._read_answer, most_bytes=None).addCallbacks(listed, lambda _: finish(refusal))

    def _read_answer(self, response: Any, most_bytes: int | None = _REASON_BYTES) -> Deferred[tuple[int, str]]:
        read = self._port.read(response)
        return read.addCallback(lambda data: (response.code, data[:most_bytes].decode("utf-8", "replace").strip()))

    def _remove(self, view: str) -> Deferred[Any]:
        """Drop a view that was added here; the view is removed from the file, whatever the runtime answers."""

        def answered(answer: tuple[int, str]) -> None:
            if answer[0] >= 400:
                self._log.warn("view {view} is not dropped: {reason}", view=view, reason=answer[1])
            self._disown(view)

        sent = self._port.begin("DELETE", f"/v1/views/{quote(view, safe='')}")
        return sent.addCallback(self._read_answer).addCallback(answered)

    def _read(self) -> dict[str, str]:
        """Return the views that an earlier run added.

        A damaged file is set aside: its views stay in the runtime without an owner.
        """
        if not self._file.exists():
            return {}
        data = self._file.read_bytes()
        with suppress(ValueError):
            return msgspec.json.decode(data, type=dict[str, str])  # format of releases before 0.2
        with suppress(ValueError):
            owned = msgspec.json.decode(data, type=_Owned)
            if owned == _Owned.of(owned.views):
                return owned.views
        self._log.error(
            "expected the list of added views in {path}, was damage: no view is dropped; the file is kept as {aside}",
            path=self._file,
            aside=set_aside(self._file),
        )
        return {}

    def _own(self, view: str, sql: str) -> None:
        if self._owned.get(view) != sql:
            self._owned[view] = sql
            self._write()

    def _disown(self, view: str) -> None:
        if self._owned.pop(view, None) is not None:
            self._write()

    def _write(self) -> None:
        hidden = self._file.with_suffix(".new")
        with hidden.open("wb") as file:
            file.write(msgspec.json.encode(_Owned.of(self._owned)))
            file.flush()
            os.fsync(file.fileno())  # otherwise a power loss leaves an empty file under the name
        hidden.rename(self._file)


def _words(sql: str) -> set[str]:
    """Return the words of a query, which include the names of the views that it reads."""
    return set(_WORD.findall(sql.lower()))
