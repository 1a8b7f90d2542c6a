"""What can be wrong with an upstream."""

from __future__ import annotations

from runtime.epochs import EpochLogError

__all__ = ["UpstreamError"]


class UpstreamError(EpochLogError):
    """An upstream's log is not the one that was read so far, or says what another origin says as well."""
