"""What an audit can fail with."""

__all__ = ["AuditError"]


class AuditError(RuntimeError):
    """There is nothing to compare; the message says what was expected."""
