"""Errors between feed messages and relations."""

from __future__ import annotations

__all__ = ["AdaptorError", "FeedGapError"]


class AdaptorError(ValueError):
    """An adaptor cannot be made or cannot continue."""


class FeedGapError(AdaptorError):
    """Messages are missing in a sequenced feed."""
