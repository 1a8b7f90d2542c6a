"""Errors of the exchange; messages read "expected X, was Y, where"."""

from deltabook.wire.errors import DamageError

__all__ = [
    "DamagedStreamError",
    "DirectoryInUseError",
    "ExchangeConfigurationError",
    "ExchangeError",
    "JournalDamagedError",
    "JournalError",
    "ListenError",
    "OperationError",
    "RecordError",
    "ReplayFileError",
    "UnknownNameError",
]


class ExchangeError(RuntimeError):
    """The exchange cannot go on; the process ends with this line."""


class ExchangeConfigurationError(ExchangeError, ValueError):
    """The settings contradict each other or the journal they are used with."""


class JournalError(ExchangeError, OSError):
    """The journal cannot be read or written."""


class DamagedStreamError(JournalError):
    """A part of a stream's file is not as it was written: its readers are refused, and the exchange goes on."""


class DirectoryInUseError(JournalError):
    """Another exchange holds the journal's directory."""


class JournalDamagedError(JournalError, DamageError):
    """A file of the journal is not as it was written, and cannot be made again on the way."""


class ListenError(ExchangeError, OSError):
    """The port cannot be opened."""


class ReplayFileError(ExchangeError, OSError):
    """A recorded file cannot be read at all."""


class RecordError(ValueError):
    """One line of a recorded file cannot be used; it is counted and the replay goes on."""


class OperationError(ExchangeError, ValueError):
    """An operator's request cannot be carried out now; nothing has changed."""


class UnknownNameError(OperationError, LookupError):
    """There is nothing of the name that the operator says."""
