"""What can be wrong with an upstream."""

from __future__ import annotations

from deltabook.wire.errors import DamageError
from runtime.epochs import EpochLogError

__all__ = ["DamagedConsumerError", "UpstreamError"]


class UpstreamError(EpochLogError):
    """An upstream's log is not the one that was read so far, or says what another origin says as well."""


class DamagedConsumerError(UpstreamError, DamageError):
    """The file in which a consumer says how far it has come holds something else."""
