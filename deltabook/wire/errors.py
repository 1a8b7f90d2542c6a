"""What can go wrong on a wire."""

__all__ = ["WireError"]


class WireError(ValueError):
    """Bytes do not follow the protocol; the message says what was expected and what was there."""
