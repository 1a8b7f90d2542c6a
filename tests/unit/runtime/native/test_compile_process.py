"""The compile process writes object code into the cache folder, once for all processes."""

from __future__ import annotations

import errno
import subprocess
from pathlib import Path

import msgspec
import pytest

from runtime.native.cache_folder import CacheFolder, compiler_key
from runtime.native.compile_process import CompileReply, CompileRequest, _serve
from runtime.native.compile_queue import COMMAND
from runtime.native.object_code import link
from runtime.native.tiers import kernel_name

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[4]
GOOD = "from runtime.native.plain import jit\n\n@jit\ndef step(p):\n    return p + 1\n"
SOURCES = [
    GOOD,
    "from runtime.native.plain import jit\n\n@jit\ndef step(p):\n    return p.cells\n",
    "def step(p):\n    return 0\n",
    "def step(p:\n",
]


def serve(folder: Path, key: str, sources: list[str]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [*COMMAND, str(folder), key, "1000000"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert process.stdin is not None
    process.stdin.write(b"".join(msgspec.json.encode(CompileRequest(source)) + b"\n" for source in sources))
    process.stdin.flush()
    return process


def replies(process: subprocess.Popen[bytes]) -> list[CompileReply]:
    out, _ = process.communicate(timeout=120)
    return [msgspec.json.decode(line, type=CompileReply) for line in out.splitlines()]


def test_two_processes_compile_a_source_once(tmp_path: Path) -> None:
    """Also: a source that cannot be compiled has a reason, which stays."""
    key, folder = compiler_key(), tmp_path / "kernels"
    folder.mkdir(mode=0o700)
    one, other = [replies(each) for each in [serve(folder, key, SOURCES) for _ in range(2)]]
    assert sorted([one[0].outcome, other[0].outcome]) == ["compiled", "present"]
    assert one[1:] == other[1:]
    assert [each.outcome for each in one[1:]] == ["failed"] * 3
    for reply, reason in zip(one[1:], ["p.cells", "decorated with `jit`", "SyntaxError"], strict=True):
        assert reason in reply.reason
    stored = CacheFolder(folder, key)
    assert [stored.failure(kernel_name(source)) for source in SOURCES[1:]] == [reply.reason for reply in one[1:]]
    content = stored.code(kernel_name(GOOD))
    assert content is not None
    assert link(content)(41) == 42
    assert not list(folder.rglob("*.tmp"))
    assert not list(folder.rglob("*.nbc"))


def test_a_full_disk_is_not_the_fault_of_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process goes on, and a source that can be compiled is compiled later."""
    folder = CacheFolder(tmp_path, compiler_key())
    folder.create()

    def full(self: CacheFolder, file_name: str, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(CacheFolder, "_write", full)
    good, bad = (_serve(folder, 1 << 20, CompileRequest(source)) for source in SOURCES[:2])
    assert (good.outcome, good.is_lasting) == ("failed", False)
    assert "No space left" in good.reason
    assert (bad.outcome, bad.is_lasting) == ("failed", True)


@pytest.mark.parametrize(("method", "outcome"), [("locked", "failed"), ("evict", "compiled")])
def test_a_folder_that_fails_does_not_end_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, outcome: str
) -> None:
    folder = CacheFolder(tmp_path, compiler_key())
    folder.create()

    def failing(*args: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(CacheFolder, method, failing)
    reply = _serve(folder, 1 << 20, CompileRequest(GOOD))
    assert (reply.outcome, reply.is_lasting) == (outcome, outcome == "compiled")
    assert ("Input/output" in reply.reason) == (outcome == "failed")


def test_another_version_is_refused(tmp_path: Path) -> None:
    """A library that was upgraded beneath a running process must not be linked into it."""
    process = serve(tmp_path, "0" * 32, [])
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"restart after upgrades" in errors
