"""Errors of messages on a wire."""

__all__ = ["AccessError", "DamageError", "RunIdError", "WireError"]


class WireError(ValueError):
    """Bytes do not follow the protocol; the message says what was expected and what was there."""


class AccessError(ValueError):
    """A port cannot be opened as it was asked for: it would be open to strangers, or its token or key is none."""


class DamageError(Exception):
    """A file of a run holds other bytes than were written; the message names the file.

    Every package has its own kinds; the command line adds to each what repairs it.
    """


class RunIdError(ValueError):
    """A run id is not one: it has other characters, or too many."""
