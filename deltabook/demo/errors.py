"""Errors that end a demo early."""

__all__ = ["CaptureError", "ChildError", "DemoError", "InterruptedDemoError"]


class DemoError(RuntimeError):
    """The demo failed; the message is the reason that the demo's last line reports."""


class CaptureError(DemoError):
    """The recorded market data could not be fetched or is not what was expected."""


class ChildError(DemoError):
    """A child process ended, hung or violated the protocol; `log_lines` are the last lines of its log."""

    def __init__(self, reason: str, log_lines: list[str]) -> None:
        super().__init__(reason)
        self.log_lines = log_lines


class InterruptedDemoError(DemoError):
    """The supervisor was interrupted by the signal `signal_number`."""

    def __init__(self, signal_number: int) -> None:
        super().__init__("interrupted")
        self.signal_number = signal_number
