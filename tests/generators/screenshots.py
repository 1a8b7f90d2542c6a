"""Pictures of the dashboard for the documentation: ``python -m tests.generators.screenshots``, or ``make screenshots``.

A demo runs for some minutes, and a headless Chromium takes its page in light and dark. The pictures have 256 colours,
which is enough for text and lines, and keeps them small.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Final

from PIL import Image

from tests.generators.browser import PROGRAM, Browser

__all__ = ["main", "take"]

DOCS: Final = Path(__file__).parents[2] / "docs"
PICTURES: Final = {"dashboard.png": False, "dashboard-dark.png": True}
"""File name → True for the dark theme."""
MOST_BYTES: Final = 400_000
"""Largest total size of the pictures in bytes, as every clone of the repository has them."""
SIZE: Final = (1280, 800)
SECONDS: Final = 150.0
"""Time for which the demo runs before its page is taken, in seconds: two minutes of candles."""
_IS_DRAWN: Final = (
    "['#heat', 'canvas[data-figure=\"1\"]', 'canvas[data-figure=\"5\"]'].every((name) => {"
    "  const canvas = document.querySelector(name);"
    "  const drawing = canvas.getContext('2d');"
    "  return canvas.width && drawing.getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean);"
    "})"
)
"""Expression that is true once the depth strip and the figures' lines, which are drawn once a second, are not empty."""
_AGE: Final = re.compile(r"^demo: +(\d+) s ")
_PAGE: Final = re.compile(r"http://127\.0\.0\.1:\d+/")


def take(url: str, folder: Path) -> list[Path]:
    """Write the pictures of a dashboard to a folder; raise `RuntimeError` if they are too large."""
    paths = []
    for name, is_dark in PICTURES.items():
        with (
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,  # Chromium writes while it ends
            Browser(Path(profile), width=SIZE[0], height=SIZE[1], dark=is_dark) as browser,
        ):
            browser.open(url)
            browser.until("document.body?.dataset.state === 'live'")
            browser.until("document.querySelectorAll('#trades tr').length > 5")
            browser.until("document.querySelector('#plot canvas') && document.querySelector('#curve canvas')")
            browser.until(_IS_DRAWN)
            browser.screenshot(folder / name)
        with Image.open(folder / name) as picture:
            picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(folder / name, optimize=True)
        paths.append(folder / name)
    size = sum(path.stat().st_size for path in paths)
    if size > MOST_BYTES:
        raise RuntimeError(f"expected pictures of at most {MOST_BYTES:,} bytes, was {size:,}")
    return paths


def _page_of(lines: IO[str]) -> str:
    """Read a demo's progress until the demo has reported the address of its page, and that its views are ready.

    Return the address.
    """
    url = ""
    for line in lines:
        sys.stderr.write(line)
        found = _PAGE.search(line)
        url = found.group() if found else url
        if url and "first view update" in line:
            return url
    raise RuntimeError("expected a demo that runs, was its end")


def _wait_for_age(lines: IO[str], seconds: float) -> None:
    """Read a demo's progress until it reports this age."""
    for line in lines:
        sys.stderr.write(line)
        age = _AGE.match(line)
        if age is not None and int(age[1]) >= seconds:
            return
    raise RuntimeError(f"expected a demo that runs for {seconds:.0f} s, was its end")


def main() -> None:
    """Run a demo and write the pictures into the documentation."""
    if PROGRAM is None:
        raise SystemExit("expected chromium, chromium-browser or google-chrome in PATH, was none")
    command = [sys.executable, "-m", "deltabook", "demo", "--json", "--seconds", str(10 * SECONDS)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as demo:
        try:
            assert demo.stderr is not None
            url = _page_of(demo.stderr)
            _wait_for_age(demo.stderr, SECONDS)
            for path in take(url, DOCS):
                sys.stdout.write(f"{path.relative_to(DOCS.parent)}: {path.stat().st_size:,} bytes\n")
        finally:
            demo.send_signal(signal.SIGINT)
            demo.communicate(timeout=120)


if __name__ == "__main__":
    main()
