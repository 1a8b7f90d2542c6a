"""Errors of the service."""

from __future__ import annotations

__all__ = ["CatalogueError", "DirectoryInUseError", "ServiceError", "UnknownReaderError", "UnknownViewError"]


class ServiceError(RuntimeError):
    """The runtime cannot do what was requested; the message has the expected and the actual value, and the place."""


class DirectoryInUseError(ServiceError):
    """The run directory is in use by another process."""


class CatalogueError(ServiceError):
    """A change of the catalogue is refused."""


class UnknownReaderError(CatalogueError, LookupError):
    """The runtime does not have this reader."""


class UnknownViewError(CatalogueError, LookupError):
    """The catalogue does not have this view."""
