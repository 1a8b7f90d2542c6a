"""Errors of the service."""

from __future__ import annotations

__all__ = ["CatalogueError", "DirectoryInUseError", "ServiceError", "UnknownReaderError", "UnknownViewError"]


class ServiceError(RuntimeError):
    """The runtime cannot do what was requested; the message says what was expected, what it was instead, and where."""


class DirectoryInUseError(ServiceError):
    """The run directory is in use by another process."""


class CatalogueError(ServiceError):
    """A change of the catalogue is refused."""


class UnknownReaderError(CatalogueError, LookupError):
    """The runtime does not have this reader."""


class UnknownViewError(CatalogueError, LookupError):
    """The catalogue does not have this view."""
