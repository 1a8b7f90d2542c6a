"""An exchange: snapshots, what was said, and last the requests, from which all else follows.

Copied in this order a journal is what a crash would have left, see `exchange_server.journal`. A segment that had a
successor by the end of its copy is copied again, since it may have grown meanwhile.
"""

from __future__ import annotations

from typing import Final

from deltabook.backup.copying import Stage, names_in
from deltabook.backup.errors import BackupError, MovedError
from deltabook.backup.parts import Part
from exchange_server.errors import JournalError
from exchange_server.journal.numbered_file import damage_before
from exchange_server.journal.segments import JournalReader
from exchange_server.journal.snapshots import SnapshotDirectory

__all__ = ["copy_exchange"]

_SEGMENTS: Final = "[0-9]*.inputs"
_ROUNDS: Final = 20


def copy_exchange(part: Part, stage: Stage) -> dict[str, str | int]:
    """Copy a journal and read every record of it; gives how far it had come.

    Raises `MovedError` if so much was removed meanwhile that no market can begin in what is left.
    """
    source = part.directory
    stage.copy_some(source / "snapshots", names_in(source / "snapshots", "[0-9]*"), is_final=True)
    for name in names_in(source, "feed.*"):
        stage.copy(source / name, name)
    stage.copy_some(source / "private", names_in(source / "private", "*.lines", "*.packets"))
    _copy_inputs(part, stage)
    try:
        reader = JournalReader(stage.path("inputs"))
        snapshots = SnapshotDirectory(stage.path("snapshots")).newest()
        newest = next((snapshot for snapshot in snapshots if snapshot.session == reader.head.session), None)
        first = reader.head.first
        if first > 1 and (newest is None or newest.inputs + 1 < first):
            raise MovedError(f"the requests before {first} are gone, and no snapshot stands for them")
        inputs = first - 1
        for number, batch in reader.batches(first - 1):
            inputs = number + len(batch) - 1
    except JournalError as error:
        raise BackupError(str(error)) from None
    for name, position in newest.streams.items() if newest is not None else ():
        if why := damage_before(position, stage.path(name)):
            raise BackupError(f"{why}: start the exchange again, or `deltabook repair` it, before it is copied")
    if newest is not None and newest.inputs > inputs:
        raise MovedError(f"a snapshot of request {newest.inputs} is newer than the requests, which end at {inputs}")
    return {"session": reader.head.session, "requests": inputs}


def _copy_inputs(part: Part, stage: Stage) -> None:
    directory = part.directory / "inputs"
    copied: list[str] = []
    for _ in range(_ROUNDS):
        names = names_in(directory, _SEGMENTS)
        if copied == names:
            return
        for name in names:
            if name not in copied or name == copied[-1]:
                stage.copy(directory / name, f"inputs/{name}")
        copied = names
    raise MovedError(f"expected {directory} to stand still for as long as its newest segment is copied")
