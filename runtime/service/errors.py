"""What can go wrong in the service."""

from __future__ import annotations

__all__ = ["CatalogueError", "DirectoryInUseError", "ServiceError", "UnknownReaderError", "UnknownViewError"]


class ServiceError(RuntimeError):
    """The runtime cannot do what it was asked; the message says what was expected, what was there, and where."""


class DirectoryInUseError(ServiceError):
    """A run directory that another process holds."""


class CatalogueError(ServiceError):
    """A change of the catalogue that is refused."""


class UnknownReaderError(CatalogueError, LookupError):
    """A reader that the runtime does not have."""


class UnknownViewError(CatalogueError, LookupError):
    """A view that the catalogue does not have."""
