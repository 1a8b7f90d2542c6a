"""What an exchange has told brokers, made again from its inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from deltabook.wire.text import Response, parse_response
from exchange_server.journal.history import History
from exchange_server.journal.streams import private_name
from exchange_server.outputs import all_outputs
from exchange_server.text.protocol import PROTOCOL, account_name

__all__ = ["replay_private_streams"]


def replay_private_streams(directory: Path, brokers: Collection[int], take: Callable[[int, Response], None]) -> str:
    """Apply every input of a journal again, and give each message to these brokers; returns the session.

    The messages follow from the inputs alone; what is in the files of the streams is not looked at. Raises
    `exchange_server.errors.JournalError` where there is no journal, or one that is damaged or has lost its beginning.
    """
    history = History(directory, all_outputs)
    names = {private_name(account_name(broker), PROTOCOL): broker for broker in brokers}
    walk = history.walk(lambda _: False, forms=())

    def on_output(name: str, data: bytes) -> None:
        broker = names.get(name)
        if broker is not None:
            for line in data.splitlines():
                take(broker, parse_response(line))

    walk.on_output = on_output
    for _ in walk.each():
        pass
    return history.reader.head.session
