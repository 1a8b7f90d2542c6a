"""Recorded market data to replay: half an hour of BTC/USD, order by order.

The file is sample data of the package ob-analytics (GPL). It is fetched when it is first needed, extracted from the
wheel as data and kept in the user's cache; the package is neither installed nor imported.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from deltabook.demo.errors import CaptureError

__all__ = ["CAPTURE_BYTES", "CAPTURE_SHA256", "REQUIREMENT", "capture_file", "pip_download"]

REQUIREMENT: Final = "ob-analytics==0.1.0"
"""Package with the file."""
CAPTURE_BYTES: Final = 2_857_114
"""Size of the file in bytes."""
CAPTURE_SHA256: Final = "880501e94fb43942b7f98cbc37bab421d72703d85898aae8de5da117bf62cdfc"
_MEMBER: Final = "ob_analytics/_sample_data/orders.csv.gz"
"""Path of the file in the wheel."""
_DOWNLOAD_TIMEOUT_S: Final = 180.0


def pip_download(requirement: str, folder: Path) -> None:
    """Download the wheel of `requirement`, without dependencies, to `folder`; raise `CaptureError` if pip cannot."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), requirement]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DOWNLOAD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise CaptureError(f"expected {requirement} within {_DOWNLOAD_TIMEOUT_S:g} s, was not there") from error
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["pip printed nothing"]
        raise CaptureError(
            f"could not fetch {requirement}: {errors[-1].removeprefix('ERROR: ')}; is this machine offline?"
        )


def _is_capture(path: Path) -> bool:
    return (
        path.is_file()
        and path.stat().st_size == CAPTURE_BYTES
        and hashlib.sha256(path.read_bytes()).hexdigest() == CAPTURE_SHA256
    )


def capture_file(environ: Mapping[str, str], download: Callable[[str, Path], None] = pip_download) -> Path:
    """Return the recorded file; fetch it if the cache does not have it, and raise `CaptureError` if that fails."""
    cache = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home()) / ".cache") / "deltabook"
    path = cache / "btcusd-orders.csv.gz"
    if _is_capture(path):
        return path
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as work:
            download(REQUIREMENT, Path(work))
            draft = Path(work) / path.name
            draft.write_bytes(_member(Path(work)))
            if not _is_capture(draft):
                raise CaptureError(f"expected {CAPTURE_BYTES} bytes with a known hash in {REQUIREMENT}, were others")
            draft.replace(path)
    except OSError as error:
        raise CaptureError(f"could not keep {REQUIREMENT} in {cache}: {error.strerror}") from error
    return path


def _member(folder: Path) -> bytes:
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise CaptureError(f"expected one wheel of {REQUIREMENT}, were {len(wheels)}")
    try:
        with zipfile.ZipFile(wheels[0]) as wheel:
            return wheel.read(_MEMBER)
    except (zipfile.BadZipFile, KeyError) as error:
        raise CaptureError(f"expected {_MEMBER} in {wheels[0].name}, was {error}") from error
