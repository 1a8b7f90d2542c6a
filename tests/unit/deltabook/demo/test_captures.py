"""The recorded file: fetched once, checked, and a clear word when it cannot be had."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from deltabook.demo import CaptureError, capture_file, captures
from deltabook.demo.captures import REQUIREMENT, pip_download

DATA = b"id,timestamp\n1,2\n"


@pytest.fixture(autouse=True)
def small_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captures, "CAPTURE_BYTES", len(DATA))
    monkeypatch.setattr(captures, "CAPTURE_SHA256", hashlib.sha256(DATA).hexdigest())


def download(data: bytes = DATA, member: str = "ob_analytics/_sample_data/orders.csv.gz") -> Any:
    def put(requirement: str, folder: Path) -> None:
        with zipfile.ZipFile(folder / "x-0.1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(member, data)

    return put


def test_it_is_fetched_once(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    path = capture_file(environ, download())
    assert path.read_bytes() == DATA
    assert path.parent == tmp_path / "deltabook"

    def never(requirement: str, folder: Path) -> None:
        raise AssertionError("fetched again")

    assert capture_file(environ, never) == path
    path.write_bytes(b"cut of")
    assert capture_file(environ, download()).read_bytes() == DATA
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("put", "reason"),
    [
        (download(data=b"other"), "bytes with a known hash"),
        (download(member="elsewhere"), "expected ob_analytics/_sample_data/orders.csv.gz in x-0.1.0"),
        (lambda requirement, folder: None, "expected one wheel of ob-analytics==0.1.0, were 0"),
        (lambda requirement, folder: (folder / "a.whl").write_text("no zip"), "File is not a zip file"),
    ],
)
def test_what_is_not_as_expected_is_refused(tmp_path: Path, put: Any, reason: str) -> None:
    with pytest.raises(CaptureError, match=reason):
        capture_file({"HOME": str(tmp_path)}, put)
    assert list((tmp_path / ".cache" / "deltabook").iterdir()) == []


def test_offline_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "WARNING: Retrying\nERROR: Could not find a version\nERROR: No matching distribution found\n"
    done = subprocess.CompletedProcess[str]([], 1, "", said)
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **options: done)
    with pytest.raises(CaptureError) as error:
        pip_download(REQUIREMENT, tmp_path)
    expected = f"could not fetch {REQUIREMENT}: No matching distribution found; is this machine offline?"
    assert str(error.value) == expected
