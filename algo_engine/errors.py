"""Errors of the algorithm engine."""

from __future__ import annotations

from deltabook.wire.errors import DamageError

__all__ = [
    "AlgoError",
    "JournalDamaged",
    "JournalInUse",
    "LoginRefused",
    "ParameterError",
    "PeerUnreachable",
    "ResultsRefused",
    "StrategiesFailed",
    "StrategyNotFound",
    "StreamGap",
    "ViewNotOffered",
]


class AlgoError(RuntimeError):
    """Base of all errors of the algorithm engine; the message is one line a user can act on."""


class StrategyNotFound(AlgoError, LookupError):
    """There is no strategy of this name, or no usable strategy class in this file."""


class StrategiesFailed(AlgoError):
    """All strategies have failed."""


class ParameterError(AlgoError, ValueError):
    """A parameter does not exist, or its value is not of its type."""


class ViewNotOffered(AlgoError, LookupError):
    """The runtime has no view of a declared name, or its view lacks a required column."""


class LoginRefused(AlgoError, ConnectionError):
    """The exchange refused a login, or the journal does not belong to this broker and this private stream."""


class PeerUnreachable(AlgoError, ConnectionError):
    """A peer did not answer within the time that the configuration grants."""


class ResultsRefused(AlgoError, ConnectionError):
    """The runtime refuses access to this process."""


class StreamGap(AlgoError, ValueError):
    """The private stream skipped a number; the connection has to be opened again at the right position."""


class JournalDamaged(AlgoError, ValueError, DamageError):
    """A journal does not begin with a readable checkpoint, or a list of trades has missing or wrong trades."""


class JournalInUse(AlgoError, OSError):
    """Another process has locked the journal of orders."""
