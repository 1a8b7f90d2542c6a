"""Errors of the kernel tiers."""

from __future__ import annotations

__all__ = ["CompileProcessError", "KernelFileError", "KernelSourceError", "NativeError", "UnsafeCacheError"]


class NativeError(Exception):
    """Base of the errors of the kernel tiers."""


class KernelSourceError(NativeError, ValueError):
    """Kernel source does not define a function `step`."""


class KernelFileError(NativeError, ValueError):
    """A file of compiled code is damaged, cannot be linked, or could have been written by another user."""


class UnsafeCacheError(NativeError, PermissionError):
    """A cache folder could have been written by another user."""


class CompileProcessError(NativeError, RuntimeError):
    """The compile process ended, or did not reply in time."""
