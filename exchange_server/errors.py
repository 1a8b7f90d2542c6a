"""Errors of the exchange; messages read "expected X, was Y, where"."""

__all__ = [
    "DirectoryInUseError",
    "ExchangeConfigurationError",
    "ExchangeError",
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


class DirectoryInUseError(JournalError):
    """Another exchange holds the journal's directory."""


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
