"""Headless Chromium controlled over two pipes (DevTools), with calls that wait for the expected state of a page."""

from __future__ import annotations

import json
import shutil
import subprocess
from base64 import b64decode
from pathlib import Path
from typing import Any, Final

__all__ = ["PROGRAM", "Browser"]

PROGRAM: Final = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
"""Path of Chromium, None where it is not installed."""
_OPTIONS: Final = (
    "--headless",
    "--no-sandbox",  # a container's root has no sandbox
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--remote-debugging-pipe",
)
_KEYS: Final = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39, "ArrowDown": 40}
_UNTIL: Final = """new Promise((resolve) => {
  let looks = 3000;
  const look = () => {
    if (%s) resolve("");
    else if (looks--) setTimeout(look, 20);
    else resolve(document.body.innerText);
  };
  look();
})"""
"""Promise of an empty text once an expression is true, or of the page's text if it is still false after 3,000 checks.

The limit is a number of checks, not a time, so that a slow machine is not a failure.
"""


class Browser:
    """One page. The pipes are the process's descriptors 3 and 4; every command waits for its answer."""

    def __init__(self, profile: Path, *, width: int = 1280, height: int = 800, dark: bool = False) -> None:
        """Start a browser; ``profile`` is an empty folder for its files."""
        assert PROGRAM is not None
        shell = 'exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1'
        self._process = subprocess.Popen(
            ["sh", "-c", shell, "sh", PROGRAM, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._number = 0
        self._session: dict[str, str] = {}
        self.complaints: list[str] = []
        """Warnings and errors of the console, and uncaught exceptions."""
        pages = [each for each in self._do("Target.getTargets")["targetInfos"] if each["type"] == "page"]
        target = pages[0]["targetId"]
        found = self._do("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": found["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._do(f"{domain}.enable")
        self._do("Emulation.setFocusEmulationEnabled", enabled=True)
        self.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._do("Emulation.setEmulatedMedia", features=[scheme])

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _do(self, method: str, **parameters: Any) -> Any:
        """Send a command and return its result; process events that come before it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters, **self._session}
        self._process.stdin.write(json.dumps(message).encode() + b"\0")
        self._process.stdin.flush()
        while True:
            answer = json.loads(self._read())
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._hear(answer.get("method", ""), answer.get("params", {}))

    def _read(self) -> bytes:
        """Return one message of the pipe, which a zero byte ends."""
        assert self._process.stdout is not None
        data = bytearray()
        while (byte := self._process.stdout.read(1)) != b"\0":
            assert byte, f"expected an answer of {PROGRAM}, was its end"
            data += byte
        return bytes(data)

    def _hear(self, event: str, said: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(said["exceptionDetails"]))
        elif event == "Log.entryAdded" and said["entry"]["level"] in {"warning", "error"}:
            self.complaints.append(f"{said['entry']['source']}: {said['entry']['text']}")
        elif event == "Runtime.consoleAPICalled" and said["type"] in {"warning", "error", "assert"}:
            self.complaints.append(json.dumps(said["args"]))

    def open(self, address: str) -> None:
        """Go to a page."""
        self._do("Page.navigate", url=address)

    def resize(self, width: int, height: int) -> None:
        """Set the size of the window, in pixels."""
        self._do("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def ask(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        result = self._do("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def until(self, claim: str) -> None:
        """Wait until an expression is true in the page."""
        words = self.ask(_UNTIL % claim)
        assert not words, f"expected a page with {claim}, was {words}"

    def press(self, key: str) -> None:
        """Press a key: Tab, Enter, Escape or an arrow."""
        said = {"key": key, "code": key, "windowsVirtualKeyCode": _KEYS[key]}
        text = {"text": "\r"} if key == "Enter" else {}
        self._do("Input.dispatchKeyEvent", type="keyDown", **said, **text)
        self._do("Input.dispatchKeyEvent", type="keyUp", **said)

    def type(self, text: str) -> None:
        """Type text into the focused element."""
        self._do("Input.insertText", text=text)

    def screenshot(self, path: Path) -> None:
        """Write the page as displayed, as PNG."""
        path.write_bytes(b64decode(self._do("Page.captureScreenshot", format="png")["data"]))

    def close(self) -> None:
        """Close the browser."""
        self._process.terminate()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
