"""Errors of the command line itself."""

__all__ = ["ConfigurationError", "OptionError"]


class ConfigurationError(ValueError):
    """The configuration file cannot be used; the message names the file and the key."""


class OptionError(ConfigurationError):
    """The command line is invalid: options contradict each other, are missing, or cannot be parsed."""
