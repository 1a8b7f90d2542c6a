"""Why a demo did not come to its end."""

__all__ = ["CaptureError", "ChildError", "DemoError", "InterruptedDemoError"]


class DemoError(RuntimeError):
    """The demo failed; the message is the reason that its last line gives."""


class CaptureError(DemoError):
    """The recorded market data could not be fetched or is not what was expected."""


class ChildError(DemoError):
    """A child process ended, hung or spoke out of turn; `log_lines` are the last lines of its log."""

    def __init__(self, reason: str, log_lines: list[str]) -> None:
        super().__init__(reason)
        self.log_lines = log_lines


class InterruptedDemoError(DemoError):
    """Someone asked the supervisor to end before its time; `signal_number` says how."""

    def __init__(self, signal_number: int) -> None:
        super().__init__("interrupted")
        self.signal_number = signal_number
