"""Errors of messages on a wire."""

__all__ = ["AccessError", "DamageError", "RunIdError", "WireError"]


class WireError(ValueError):
    """Bytes do not follow the protocol; the message has the expected and the actual value."""


class AccessError(ValueError):
    """A port cannot be opened as configured: it would be open to strangers, or its token or key is invalid."""


class DamageError(Exception):
    """The bytes of a file of a run differ from those written; the message names the file.

    Every package has its own subclasses; the command line adds the remedy to each message.
    """


class RunIdError(ValueError):
    """A run id is invalid: it has other characters than allowed, or too many."""
