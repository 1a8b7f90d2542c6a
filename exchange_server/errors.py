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
    """Base of the exchange's errors. Unless a subclass says otherwise, the exchange cannot continue, and the process
    ends with the message.
    """


class ExchangeConfigurationError(ExchangeError, ValueError):
    """The settings contradict each other, or they contradict the journal."""


class JournalError(ExchangeError, OSError):
    """The journal cannot be read or written."""


class DamagedStreamError(JournalError):
    """A part of a stream's file differs from what was written; its readers are refused, and the exchange continues."""


class DirectoryInUseError(JournalError):
    """Another exchange has locked the journal's directory."""


class JournalDamagedError(JournalError, DamageError):
    """A file of the journal differs from what was written and cannot be restored automatically."""


class ListenError(ExchangeError, OSError):
    """The port cannot be opened."""


class ReplayFileError(ExchangeError, OSError):
    """A recorded file cannot be read at all."""


class RecordError(ValueError):
    """One line of a recorded file cannot be used; it is counted and the replay continues."""


class OperationError(ExchangeError, ValueError):
    """An operator's request cannot be carried out now; nothing was changed."""


class UnknownNameError(OperationError, LookupError):
    """An operator's request names something unknown."""
