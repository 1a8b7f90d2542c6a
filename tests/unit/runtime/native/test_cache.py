"""Compiled kernels come from the folder or the compile process, and are missing without harm."""

from __future__ import annotations

import subprocess
import sys
from array import array
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

import pytest

from runtime.native import cache, cache_folder
from runtime.native.cache import KernelCache, default_kernels, kernels_from_environment
from runtime.native.cache_folder import CacheFolder, compiler_key
from runtime.native.tiers import kernel_name, plain_kernel

ROOT = Path(__file__).parents[4]
HASH = """
from runtime.native.plain import array, jit, mul_wide, narrow, root, store_wide, wide
from runtime.native.library.hashing import hash_of

@jit
def step(p):
    cells = array(root(p), 0)
    cells[0] = hash_of(cells, 1, 2)
    product, outside = mul_wide(wide(cells[1]), wide(cells[2]))
    store_wide(cells, 3, product)
    return narrow(product)
"""
BAD = "from runtime.native.plain import jit\n\n@jit\ndef step(p):\n    return p.cells\n"
SHORT_OF_MEMORY = """
from runtime.native import compile_process

compile_in_earnest = compile_process._compile

def fail_once(folder, name, source):
    compile_process._compile = compile_in_earnest
    return compile_process.CompileReply(name, "failed", "MemoryError: ", is_lasting=False)

compile_process._compile = fail_once
compile_process.main()
"""
DEAD = [sys.executable, "-c", "import sys; sys.exit('no compiler here')"]


class Clock:
    """A clock that a test sets."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder with `HASH` compiled."""
    folder = tmp_path_factory.mktemp("cache") / "kernels"
    kernels = KernelCache(folder)
    try:
        assert kernels.wait([HASH], 120), kernels.failures
    finally:
        kernels.close()
    return folder


@pytest.fixture
def own(compiled: Path, tmp_path: Path) -> Path:
    """A cache folder like `compiled` that a test may change."""
    key = compiler_key()
    source, target = CacheFolder(compiled, key), CacheFolder(tmp_path / "kernels", key)
    target.create()
    content = source.code(kernel_name(HASH))
    assert content is not None
    target.store(kernel_name(HASH), HASH, content)
    return target.root


@pytest.fixture
def dead(tmp_path: Path) -> Iterator[KernelCache]:
    """A cache whose compile process ends at once."""
    kernels = KernelCache(tmp_path / "kernels", command=DEAD)
    yield kernels
    kernels.close()


def called(kernels: KernelCache, values: Sequence[int]) -> tuple[int, list[int], int, list[int]]:
    """Return status and cells after the compiled kernel, and after the interpreted one."""
    kernel = kernels.get(HASH)
    assert kernel is not None
    cells, same = array("q", values), array("q", values)
    table = array("q", [cells.buffer_info()[0]])
    return (
        kernel(table.buffer_info()[0]),
        cells.tolist(),
        plain_kernel(HASH)([memoryview(same)]),
        same.tolist(),
    )


@pytest.mark.process
@pytest.mark.parametrize(("left", "right"), [(3, 4), (-(2**63), 2**62), (2**62 + 5, -3)])
def test_both_tiers_agree(compiled: Path, left: int, right: int) -> None:
    status, cells, plain_status, plain_cells = called(KernelCache(compiled), [0, left, right, 0, 0])
    assert (status, cells) == (plain_status, plain_cells)


@pytest.mark.process
def test_loading_a_kernel_imports_no_compiler(compiled: Path) -> None:
    """What comes from the folder costs a process no compilation."""
    text = (
        "import sys; from pathlib import Path; from runtime.native.cache import KernelCache\n"
        "kernels = KernelCache(Path(sys.argv[1]), command=['/no/such/program'])\n"
        "assert not {'llvmlite', 'numpy'} & set(sys.modules), 'imported too early'\n"
        "assert kernels.wait([sys.stdin.read()], 0)\n"
        "print('runtime.native.machine_code' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", text, str(compiled)],
        input=HASH,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=ROOT,
    )
    assert done.stdout == "False\n"


@pytest.mark.process
def test_what_is_present_is_not_compiled_again(compiled: Path) -> None:
    kernels = KernelCache(compiled, command=["/no/such/program"])
    report = kernels.compile_now([HASH, HASH])
    assert (report.count, report.present, report.failures) == (0, 1, {})
    assert report.size_bytes == kernels.status().size_bytes > 0
    assert kernels.status().kernels == 1


@pytest.mark.process
def test_compile_now_reports_what_it_compiled(own: Path) -> None:
    kernels = KernelCache(own)
    source = HASH + "# another text\n"
    report = kernels.compile_now([HASH, source, BAD])
    kernels.close()
    assert (report.count, report.present, list(report.failures)) == (1, 1, [kernel_name(BAD)])
    assert kernels.get(source) is not None
    # What cannot be compiled is known to other processes, which do not try again.
    later = KernelCache(own, command=["/no/such/program"])
    assert not later.wait([BAD], 60)
    assert "p.cells" in later.failures[kernel_name(BAD)]


@pytest.mark.process
def test_a_damaged_file_is_removed_and_compiled_again_once(own: Path) -> None:
    (path,) = own.glob("*/*.o")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    kernels = KernelCache(own, recheck_s=0.0)
    assert kernels.get(HASH) is None
    assert kernels.wait([HASH], 60)
    assert kernels.get(HASH) is not None
    assert path.read_bytes() == whole
    kernels._linked.clear()
    path.write_bytes(whole[:-1])
    assert kernels.get(HASH) is None
    assert "SHA-256" in kernels.failures[kernel_name(HASH)]
    kernels.close()


@pytest.mark.process
@pytest.mark.parametrize("damage", ["content", "mode", "link"])
def test_compile_now_makes_damaged_files_again(own: Path, damage: str) -> None:
    (path,) = own.glob("*/*.o")
    whole = path.read_bytes()
    if damage == "content":
        path.write_bytes(whole[:-1])
    elif damage == "mode":
        path.chmod(0o666)
    else:
        path.symlink_to(path.rename(own / "elsewhere.o"))
    kernels = KernelCache(own)
    assert len(kernels.check_folder()) == 1
    report = kernels.compile_now([HASH])
    assert (report.count, report.present, report.failures) == (1, 0, {})
    assert (path.read_bytes(), path.lstat().st_mode & 0o777, kernels.check_folder()) == (whole, 0o600, [])
    kernels.close()


@pytest.mark.process
def test_a_file_that_others_can_write_affects_its_kernel_alone(own: Path) -> None:
    (path,) = own.glob("*/*.o")
    path.chmod(0o666)
    kernels = KernelCache(own, recheck_s=0.0)
    assert (kernels.get(HASH), kernels.status().is_on) == (None, True)
    assert kernels.wait([HASH], 60)
    assert kernels.get(HASH) is not None
    kernels.close()


@pytest.mark.process
def test_code_of_other_texts_than_those_imported_is_not_linked(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts may be replaced while a process runs."""
    key = compiler_key()
    monkeypatch.setattr(Path, "read_bytes", lambda path: b"replaced")
    assert compiler_key() == key
    monkeypatch.setattr(cache_folder, "_TEXTS_DIGEST", cache_folder._digest_of_texts())
    assert compiler_key() != key


@pytest.mark.process
def test_a_folder_that_others_can_write_is_not_used(own: Path) -> None:
    own.chmod(0o777)
    kernels = KernelCache(own)
    assert kernels.get(HASH) is None
    assert kernels.status().reason == f"expected {own} to be writable by its owner alone (chmod go-w), was mode 0777"
    assert not kernels.wait([HASH], 0)
    own.chmod(0o700)
    assert kernels.get(HASH) is None


@pytest.mark.process
def test_an_absent_kernel_is_looked_for_again_after_a_while(own: Path) -> None:
    """Reading the folder for every batch of every view would cost more than the views."""
    (path,) = own.glob("*/*.o")
    content = path.read_bytes()
    path.unlink()
    clock = Clock()
    kernels = KernelCache(own, recheck_s=0.1, clock=clock)
    assert kernels.get(HASH) is None
    path.write_bytes(content)
    path.chmod(0o600)
    assert kernels.get(HASH) is None
    clock.now_s += 0.11
    kernel = kernels.get(HASH)
    assert kernel is not None
    path.unlink()
    assert kernels.get(HASH) is kernel


@pytest.mark.process
def test_a_shipped_kernel_needs_no_compiler(compiled: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    kernels = KernelCache(mine, command=DEAD, shipped=compiled)
    assert kernels.wait([HASH], 0)
    assert called(kernels, [0, 3, 4, 0, 0]) == called(KernelCache(compiled), [0, 3, 4, 0, 0])
    assert not mine.exists()
    assert kernels.environment()["DELTABOOK_SHIPPED_KERNELS"] == str(compiled)


@pytest.mark.process
def test_a_damaged_shipped_kernel_is_compiled_again(own: Path, tmp_path: Path) -> None:
    (path,) = own.glob("*/*.o")
    damaged = path.read_bytes()[:-1]
    path.write_bytes(damaged)
    kernels = KernelCache(tmp_path / "mine", recheck_s=0.0, shipped=own)
    assert kernels.get(HASH) is None
    assert kernels.wait([HASH], 60)
    assert kernels.get(HASH) is not None
    assert path.read_bytes() == damaged
    kernels.close()


@pytest.mark.process
def test_compile_now_replaces_a_damaged_shipped_kernel(own: Path, tmp_path: Path) -> None:
    (path,) = own.glob("*/*.o")
    path.write_bytes(path.read_bytes()[:-1])
    kernels = KernelCache(tmp_path / "mine", shipped=own)
    kernels.create_folder()
    report = kernels.compile_now([HASH])
    assert (report.count, report.present, report.failures) == (1, 0, {})
    assert kernels.get(HASH) is not None
    kernels.close()


def test_a_shipped_folder_that_others_can_write_is_not_used(own: Path, tmp_path: Path) -> None:
    own.chmod(0o777)
    kernels = KernelCache(tmp_path / "mine", command=DEAD, shipped=own)
    assert kernels.get(HASH) is None
    assert not kernels.wait([HASH], 60)
    kernels.close()


def test_linked_kernels_are_bounded(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_LINKED", 1)
    (path,) = own.glob("*/*.o")
    other = path.with_name(kernel_name("other") + ".o")
    other.write_bytes(path.read_bytes())
    other.chmod(0o600)
    clock = Clock()
    kernels = KernelCache(own, clock=clock)
    assert None not in (kernels.get(HASH), kernels.get("other"))
    assert kernels.status().linked == 1
    clock.now_s += 1
    assert kernels.get(HASH) is not None


@pytest.mark.process
def test_without_a_compile_process_sources_fail(dead: KernelCache) -> None:
    assert not dead.wait([HASH, BAD], 60)
    assert dead.status().is_on
    assert (dead.status().failed, dead.status().pending) == (2, 0)
    assert all("no compiler here" in reason for reason in dead.failures.values())
    report = dead.compile_now([HASH])
    assert (report.count, report.present, list(report.failures)) == (0, 0, [kernel_name(HASH)])


def test_waiting_ends_with_its_time(tmp_path: Path) -> None:
    kernels = KernelCache(tmp_path / "kernels", command=[sys.executable, "-c", "import signal; signal.pause()"])
    assert not kernels.wait([HASH], 0)
    assert kernels.status().pending == 1
    kernels.request([HASH, HASH])
    assert kernels.status().pending == 1
    kernels.close()
    assert not kernels.wait([HASH], None)
    assert kernels.get(HASH) is None


def test_switched_off_every_source_is_interpreted(tmp_path: Path) -> None:
    kernels = KernelCache(tmp_path / "kernels", enabled=False)
    kernels.request([HASH])
    assert (kernels.get(HASH), kernels.wait([HASH], 0), kernels.wait([], 0)) == (None, False, True)
    assert list(kernels.compile_now([HASH]).failures.values()) == ["switched off"]
    assert (kernels.status().is_on, kernels.status().reason) == (False, "switched off")
    assert not (tmp_path / "kernels").exists()


def test_without_llvmlite_every_source_is_interpreted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(package: str) -> str:
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr(metadata, "version", version)
    kernels = KernelCache(tmp_path / "kernels")
    kernels.request([HASH])
    status = kernels.status()
    assert (kernels.get(HASH), status.is_on, status.llvmlite) == (None, False, "")
    assert status.reason == "expected the package llvmlite, was not installed"


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    kernels = KernelCache(tmp_path / "file" / "kernels")
    assert kernels.get(HASH) is None
    kernels.request([HASH])
    assert "Not a directory" in kernels.status().reason


def test_the_environment_names_folder_and_switch(tmp_path: Path) -> None:
    def folder(**variables: str) -> Path:
        return kernels_from_environment(variables).folder

    home = Path.home() / ".cache" / "deltabook" / "kernels"
    assert folder() == folder(XDG_CACHE_HOME="relative") == folder(DELTABOOK_KERNEL_CACHE="") == home
    assert folder(XDG_CACHE_HOME="/caches") == Path("/caches/deltabook/kernels")
    assert folder(XDG_CACHE_HOME="/caches", DELTABOOK_KERNEL_CACHE="/mine") == Path("/mine")
    off = kernels_from_environment({"DELTABOOK_NATIVE": "off", "DELTABOOK_KERNEL_CACHE": str(tmp_path)})
    assert off.status().reason == "switched off"
    assert kernels_from_environment(off.environment()).environment() == off.environment()
    assert folder(DELTABOOK_KERNEL_CACHE="~/kernels") == Path.home() / "kernels"
    assert kernels_from_environment({"DELTABOOK_NATIVE": "Off"}).status().reason == "switched off"
    with pytest.raises(ValueError, match="expected DELTABOOK_NATIVE=on or off, was 'no'"):
        kernels_from_environment({"DELTABOOK_NATIVE": "no"})


def test_a_process_has_one_default() -> None:
    assert default_kernels() is default_kernels()


def test_a_failed_compilation_is_repeated_after_a_while(tmp_path: Path) -> None:
    clock = Clock()
    kernels = KernelCache(tmp_path / "kernels", command=[sys.executable, "-c", SHORT_OF_MEMORY], clock=clock)
    try:
        assert not kernels.wait([HASH], None)
        assert list(kernels.failures.values()) == ["MemoryError: "]
        clock.now_s += 59
        assert kernels.get(HASH) is None
        assert kernels.failures
        clock.now_s += 1
        assert kernels.get(HASH) is None
        assert kernels.wait([HASH], None)
        assert kernels.get(HASH) is not None
    finally:
        kernels.close()
