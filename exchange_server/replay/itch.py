"""Loader of NASDAQ's daily files: TotalView-ITCH 5.0 messages, each after its two-byte length (BinaryFILE)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from struct import Struct
from typing import IO, Final

from deltabook.wire.itch import MESSAGES, broker_of
from exchange_server.errors import ExchangeConfigurationError, RecordError, ReplayFileError
from exchange_server.replay.loader import BROKERS, INT64_MAX, FileLoader, day_of_name, midnight_ns
from exchange_server.replay.record import Record

__all__ = ["ItchLoader"]

_CHUNK_BYTES: Final = 1 << 20
_MOST_STOCKS: Final = 1_000
_MOST_NAMED: Final = 20
"""Largest number of stocks that a message to the user names."""
_MOST_SKIPPED_BY: Final = 32
"""Largest number of stocks for which a pattern skips the messages of other stocks."""

# Layouts from the time (byte 5 of a message) on; the time is two integers.
_ADD: Final = Struct(">HIQcI8sI")
_ADD_ATTRIBUTED: Final = Struct(">HIQcI8sI4s")
_EXECUTED: Final = Struct(">HIQI")
_EXECUTED_AT: Final = Struct(">HIQIQcI")
_CANCELED: Final = Struct(">HIQI")
_DELETED: Final = Struct(">HIQ")
_REPLACED: Final = Struct(">HIQQII")
_TRADED: Final = Struct(">HIQcI8sI")
_CROSSED: Final = Struct(">HIQ8sI")
_TIME_AT: Final = 5

_LENGTHS: Final = [0] * 256
_LETTERS: Final[dict[int, bytes]] = {}
"""Types of the messages by length, the frequent ones first."""
_STOCK_AT: Final[dict[int, int]] = {}
"""Offset of the stock's name by message type."""
for _message in sorted(MESSAGES.values(), key=lambda message: "ADUEXFPI".find(message.type) % 100):
    _LETTERS[_message.length] = _LETTERS.get(_message.length, b"") + _message.type.encode()
    _LENGTHS[ord(_message.type)] = _message.length
    for _field in _message.fields:
        if _field.name == "stock":
            _STOCK_AT[ord(_message.type)] = _field.offset

_Event = tuple[int, int, int, str, int, int, int]
"""Time since midnight in ns, order, broker, action, volume, price, new order."""


class ItchLoader(FileLoader):
    """Records of chosen stocks: A and F become B or S; E and C become E; X, D and U keep their letter; P and Q become
    T.

    A C that is not printable reports an order's part in a cross. The cross itself is reported as a trade (Q), so that
    such a C becomes X: otherwise lots would be traded twice. Attributions become brokers (`deltabook.wire.itch`).
    Messages of other types change no book. Messages of unknown types or with a wrong length are bad, whatever their
    stock; if a file ends within a message, that message is bad. The day is taken from the file's name unless it is
    given.
    """

    unit = "byte"

    def __init__(self, path: Path, stocks: Sequence[str], *, day: str = "") -> None:
        """Open a file; raise `ExchangeConfigurationError` for impossible stocks or an invalid day."""
        super().__init__(path, tuple(stocks))
        if not 0 < len(stocks) <= _MOST_STOCKS or len(set(stocks)) < len(stocks):
            raise ExchangeConfigurationError(f"expected 1 to {_MOST_STOCKS} different stocks, was {len(stocks)}")
        for stock in stocks:
            if not (0 < len(stock) <= 8 and stock.isascii()):
                raise ExchangeConfigurationError(f"expected a stock of 1 to 8 ASCII characters, was {stock!r}")
        self._wanted = {stock.encode().ljust(8): stock for stock in stocks}
        self._padded = {stock: padded for padded, stock in self._wanted.items()}
        self._day_ns = midnight_ns(day or day_of_name(path))

    def _read(self, file: IO[bytes]) -> Iterator[Record]:
        symbols: dict[int, str | None] = {0: None}  # by locate; None for a stock that was not chosen
        skip: re.Pattern[bytes] | None = None
        base = latest_ns = 0
        rest = b""
        others: list[bytes] = []
        while chunk := file.read(_CHUNK_BYTES):
            data, at = rest + chunk, 0
            size = len(data)
            while True:
                if skip is not None:
                    at = skip.match(data, at).end()  # type: ignore[union-attr]  # the pattern also matches no bytes
                start = at + 2
                at_next = start + (data[at] << 8 | data[at + 1]) if start <= size else start
                if at_next > size:
                    break
                if at_next == start:
                    self._check_end(base + at + 1, data[start:], file)
                    self._check_stocks(symbols, others)
                    return
                message = data[start:at_next]
                kind = message[0]
                if _LENGTHS[kind] != len(message):
                    self._bad_message(base + at + 1, message)
                else:
                    locate = message[1] << 8 | message[2]
                    if locate not in symbols and kind in _STOCK_AT:
                        stock = message[_STOCK_AT[kind] : _STOCK_AT[kind] + 8]
                        symbols[locate] = self._wanted.get(stock)
                        skip = self._skip(symbols)
                        if symbols[locate] is None and len(others) < _MOST_NAMED:
                            others.append(stock)
                    symbol = symbols.get(locate)
                    if symbol is not None and kind in _EVENTS:
                        record = self._record(base + at + 1, symbol, latest_ns, message)
                        if record is not None:
                            latest_ns = record.time_ns
                            yield record
                at = at_next
            rest = data[at:]
            base += at
        if rest:
            was = f"{rest[:64]!r}, which begins the last {len(rest)} bytes"
            self._bad(base + 1, RecordError(f"expected a whole message, was {was}"))
        self._check_stocks(symbols, others)

    def _check_stocks(self, symbols: Mapping[int, str | None], others: Sequence[bytes]) -> None:
        """Log the chosen stocks that the file does not name; raise `ReplayFileError` if it names none of them."""
        missing = [stock for stock in self.symbols if stock not in symbols.values()]
        if not missing:
            return
        named = b", ".join(others).decode("latin-1") or "none"
        if len(missing) == len(self.symbols):
            raise ReplayFileError(
                f"expected a file with {', '.join(missing[:_MOST_NAMED])}, was one without; its first stocks are: "
                f"{' '.join(named.split())}, at {self.path}"
            )
        self._log.warn(
            "replay: {path} has no messages of {stocks}", path=str(self.path), stocks=", ".join(missing[:_MOST_NAMED])
        )

    def _check_end(self, position: int, rest: bytes, file: IO[bytes]) -> None:
        """Count a bad message if something follows the length 0 that ends a session in BinaryFILE.

        Zeros may follow: they are further lengths of 0.
        """
        count, is_end = len(rest), not rest.strip(b"\0")
        while chunk := file.read(_CHUNK_BYTES):
            count += len(chunk)
            is_end = is_end and not chunk.strip(b"\0")
        if not is_end:
            error = f"expected the end of the file behind the end of the session, was {count} bytes, which are not read"
            self._bad(position, RecordError(error))

    def _skip(self, symbols: Mapping[int, str | None]) -> re.Pattern[bytes] | None:
        """Return a pattern of whole messages of other stocks; None if too many stocks are chosen or a locate is unknown
        yet.

        Most messages of a file concern other stocks. One match over a run of such messages is five times as fast as
        examining each message.
        """
        locates = [locate.to_bytes(2, "big") for locate, symbol in symbols.items() if symbol is not None]
        if len(locates) < len(self._wanted) or len(locates) > _MOST_SKIPPED_BY:
            return None
        wanted = b"|".join(map(re.escape, locates))
        kinds = b"|".join(
            b"%b[%b](?!%b).{%d}" % (re.escape(bytes([length])), letters, wanted, length - 1)
            for length, letters in _LETTERS.items()
        )
        return re.compile(b"(?s)(?:\\x00(?:%b))*+" % kinds)

    def _record(self, position: int, symbol: str, latest_ns: int, message: bytes) -> Record | None:
        """Return the record of a message; None for an unusable message, and for a cross without a trade."""
        try:
            at = _STOCK_AT.get(message[0])
            if at is not None and message[at : at + 8] != self._padded[symbol]:
                raise RecordError(f"expected {symbol} for its locate, was {message[at : at + 8]!r}")
            time_ns, order_id, broker_id, action, volume, price, new_id = _EVENTS[message[0]](message, _TIME_AT)
            if not volume and action == "T" and not (order_id or price):
                self.skipped += 1
                return None
            if not volume and action != "D":
                raise RecordError("expected 1 share or more, was 0")
            if not price and action in "BSUT":
                raise RecordError("expected a price above 0, was 0")
            if order_id > INT64_MAX or new_id > INT64_MAX or volume > INT64_MAX:
                raise RecordError(f"expected numbers up to {INT64_MAX}, was {max(order_id, new_id, volume)}")
        except RecordError as error:
            self._bad(position, error)
            return None
        time_ns = self._in_order(self._day_ns + time_ns, latest_ns)
        return Record(position, time_ns, order_id, broker_id, action, volume, price, symbol, new_id)

    def _bad_message(self, position: int, message: bytes) -> None:
        expected, letter = _LENGTHS[message[0]], message[:1].decode("latin-1")
        if expected:
            error = RecordError(f"expected {expected} bytes for a message {letter}, was {len(message)}")
        else:
            error = RecordError(f"expected a type out of {' '.join(MESSAGES)}, was {letter!r}")
        self._bad(position, error)


def _side(side: bytes) -> str:
    if side == b"B":
        return "B"
    if side == b"S":
        return "S"
    raise RecordError(f"expected side B or S, was {side!r}")


def _add(data: bytes, at: int) -> _Event:
    high, low, order_id, side, shares, _, price = _ADD.unpack_from(data, at)
    return high << 32 | low, order_id, order_id % BROKERS, _side(side), shares, price, 0


def _add_attributed(data: bytes, at: int) -> _Event:
    high, low, order_id, side, shares, _, price, attribution = _ADD_ATTRIBUTED.unpack_from(data, at)
    broker_id = broker_of(attribution.decode("latin-1"))
    if broker_id is None:
        broker_id = order_id % BROKERS
    return high << 32 | low, order_id, broker_id, _side(side), shares, price, 0


def _executed(data: bytes, at: int) -> _Event:
    high, low, order_id, shares = _EXECUTED.unpack_from(data, at)
    return high << 32 | low, order_id, order_id % BROKERS, "E", shares, 0, 0


def _executed_at(data: bytes, at: int) -> _Event:
    high, low, order_id, shares, _, printable, price = _EXECUTED_AT.unpack_from(data, at)
    return high << 32 | low, order_id, order_id % BROKERS, "X" if printable == b"N" else "E", shares, price, 0


def _canceled(data: bytes, at: int) -> _Event:
    high, low, order_id, shares = _CANCELED.unpack_from(data, at)
    return high << 32 | low, order_id, order_id % BROKERS, "X", shares, 0, 0


def _deleted(data: bytes, at: int) -> _Event:
    high, low, order_id = _DELETED.unpack_from(data, at)
    return high << 32 | low, order_id, order_id % BROKERS, "D", 0, 0, 0


def _replaced(data: bytes, at: int) -> _Event:
    high, low, order_id, new_id, shares, price = _REPLACED.unpack_from(data, at)
    return high << 32 | low, order_id, order_id % BROKERS, "U", shares, price, new_id


def _traded(data: bytes, at: int) -> _Event:
    high, low, order_id, _, shares, _, price = _TRADED.unpack_from(data, at)
    return high << 32 | low, order_id, order_id % BROKERS, "T", shares, price, 0


def _crossed(data: bytes, at: int) -> _Event:
    high, low, shares, _, price = _CROSSED.unpack_from(data, at)
    return high << 32 | low, 0, 0, "T", shares, price, 0


_EVENTS: Final[Mapping[int, Callable[[bytes, int], _Event]]] = {
    ord("A"): _add,
    ord("F"): _add_attributed,
    ord("E"): _executed,
    ord("C"): _executed_at,
    ord("X"): _canceled,
    ord("D"): _deleted,
    ord("U"): _replaced,
    ord("P"): _traded,
    ord("Q"): _crossed,
}
