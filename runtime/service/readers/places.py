"""Sources of readers: files inside configured directories, which names and links cannot leave, and plain streams."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runtime.formats.codecs import Codec
from runtime.service.errors import CatalogueError
from runtime.sources import BufferSink, FileSource, Position, TcpSource

__all__ = ["FileBelow", "PlainStream", "file_below"]

_AGAIN_SECONDS = 1.0


def file_below(given: str, directories: Sequence[Path]) -> Path:
    """Return the path of a file, given absolutely or relative to the first directory, with all links resolved.

    Raises `CatalogueError` for a path that is not a file below one of the directories.
    """
    if not directories:
        raise CatalogueError(f"expected a runtime with --reader-dir to read files, was one without: {given!r}")
    path = Path(given)
    if ".." in path.parts:
        raise CatalogueError(f"expected the name of a file without .., was {given!r}")
    known = " or ".join(map(str, directories))
    try:
        resolved = (directories[0] / path).resolve(strict=True)
        is_below = any(resolved.is_relative_to(directory.resolve()) for directory in directories)
        is_file = resolved.is_file()
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CatalogueError(f"expected a file below {known}, was {given!r}: {reason}") from None
    if not is_below or not is_file:
        raise CatalogueError(f"expected a file below {known}, was {given!r}")
    return resolved


class FileBelow(FileSource):
    """File of a reader; its path is checked each time that it is opened."""

    def __init__(self, given: str, directories: Sequence[Path], origin_id: int, codec: Codec | None) -> None:
        super().__init__(Path(given), origin_id, codec=codec)
        self._given = given
        self._directories = tuple(directories)

    def open(self, sink: BufferSink, position: Position) -> None:
        """See `FileSource`; raises `CatalogueError` if the file is no longer inside the directories."""
        self._path = file_below(self._given, self._directories)
        super().open(sink, position)


class PlainStream(TcpSource):
    """Stream of a TCP server, read until the server ends it; a lost connection is made again after a second."""

    __slots__ = ()

    def __init__(self, reactor: Any, host: str, port: int, origin_id: int, **options: Any) -> None:
        super().__init__(reactor, host, port, origin_id, reconnects=True, **options)

    def ended(self, reason: str, *, is_clean: bool) -> None:
        """See `ConnectingSource`; a clean close by the server is the end of the stream."""
        if is_clean:
            if self.sink is not None:
                self.sink.end_of_stream(self._origin_id)
            return
        self._reactor.callLater(_AGAIN_SECONDS, self._lost, reason)

    def _lost(self, reason: str) -> None:
        if not self.is_closed:
            super().ended(reason, is_clean=False)
