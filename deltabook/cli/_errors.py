"""Errors of the command line itself."""

__all__ = ["ConfigurationError"]


class ConfigurationError(ValueError):
    """The configuration file cannot be used; the message names the file and the key."""
