"""What a backup can fail with."""

__all__ = ["BackupError", "MovedError"]


class BackupError(RuntimeError):
    """A backup cannot be made, or put back; the message says what was expected."""


class MovedError(Exception):
    """What was being copied has moved on meanwhile, and has to be copied again."""
