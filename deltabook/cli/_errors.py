"""Errors of the command line itself."""

__all__ = ["ConfigurationError", "OptionError"]


class ConfigurationError(ValueError):
    """The configuration file cannot be used; the message names the file and the key."""


class OptionError(ConfigurationError):
    """The command line does not say what to do: options that contradict each other, lack one, or cannot be read."""
