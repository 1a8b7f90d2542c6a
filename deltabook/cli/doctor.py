"""`deltabook doctor`: check the machine and the installation, and print how to fix what is missing."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
from collections.abc import Callable, Mapping
from importlib import import_module, metadata
from pathlib import Path
from typing import Final, Literal

import click
import msgspec

from deltabook.cli._options import json_option
from deltabook.wire.advice import IS_CHECKOUT, install_command
from runtime.spark.java import JavaNotFoundError, find_java

__all__ = ["Check", "command", "examine"]

_MIB: Final = 1024 * 1024
_MEMORY_NEEDED_MIB: Final = 2048
_MEMORY_WANTED_MIB: Final = 4096
_DISK_NEEDED_MIB: Final = 512
_DISK_WANTED_MIB: Final = 2048
_SHARED_MEMORY_WANTED_MIB: Final = 64
_PORTS_NEEDED: Final = 8
"""Number of ports that must be free: the demo opens six of its own, Spark some more."""
_SPARK_PACKAGES: Final = {
    "pyspark": "pyspark.sql",
    "pyarrow": "pyarrow.compute",
    "pandas": "pandas",
    "protobuf": "google.protobuf.message",
}
"""Module of each package whose import shows that the package is complete."""
_MARKS: Final = {"ok": "ok     ", "warning": "warning", "missing": "MISSING"}


class Check(msgspec.Struct, frozen=True):
    """Result of one check."""

    name: str
    """Subject of the check."""
    status: Literal["ok", "warning", "missing"]
    """`missing`: Deltabook does not run without the subject; `warning`: Deltabook runs, but not well."""
    found: str
    """Description of the present state."""
    mend: str = ""
    """Remedy; empty if the check is ok."""


def _graded(name: str, value: int, unit: str, *, needed: int, wanted: int, mend: str) -> Check:
    status: Literal["ok", "warning", "missing"] = "missing" if value < needed else "warning" if value < wanted else "ok"
    return Check(
        name, status, f"{value} {unit}", "" if status == "ok" else f"{mend} (expected {wanted} {unit} or more)"
    )


def check_python(version: tuple[int, ...] = tuple(sys.version_info[:2])) -> Check:
    """Check for Python 3.11 or later."""
    state = f"{platform.python_version()} at {sys.executable}"
    if version >= (3, 11):
        return Check("python", "ok", state)
    how = "; make setup PYTHON=/path/to/python3.11" if IS_CHECKOUT else ""
    return Check("python", "missing", state, f"install Python 3.11 or later{how}")


def check_java(environ: Mapping[str, str]) -> Check:
    """Check for a Java that Spark runs on."""
    try:
        java = find_java(environ)
    except JavaNotFoundError as error:
        state = f"{str(error).partition(';')[0]}: views run on the express lane alone"
        mend = f"run {install_command('java')}, or install Java 17 or 21 and set JAVA_HOME"
        return Check("java", "warning", state, mend)
    return Check("java", "ok", f"version {java.version} from {java.source}: {java.path}")


def check_spark() -> Check:
    """Check pyspark and the Python packages that it needs."""
    versions: dict[str, str] = {}
    for package, module in _SPARK_PACKAGES.items():
        try:
            versions[package] = metadata.version(package)
            import_module(module)
        except metadata.PackageNotFoundError:
            state = f"no package {package}: views run on the express lane alone"
            return Check("spark", "warning", state, f"run {install_command('spark')}")
        except Exception as error:  # noqa: BLE001 (an incomplete package may raise any error)
            state = f"{package} {versions[package]} cannot be imported: {type(error).__name__}: {error}"
            return Check("spark", "missing", state, f"pip install --force-reinstall {package}")
    state = ", ".join(f"{package} {version}" for package, version in versions.items())
    if int(versions["pandas"].split(".")[0]) >= 3:
        return Check("spark", "missing", state, "pip install 'pandas<3': this Spark does not work with pandas 3")
    return Check("spark", "ok", state)


def check_ports() -> Check:
    """Check for free ports on the loopback interface."""
    listeners: list[socket.socket] = []
    try:
        for _ in range(_PORTS_NEEDED):
            listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            listeners.append(listener)
            listener.bind(("127.0.0.1", 0))
            listener.listen(1)
        with socket.create_connection(listeners[0].getsockname(), timeout=5):
            pass
    except OSError as error:
        mend = "allow connections to 127.0.0.1 (firewall, container settings, open file limit)"
        return Check("loopback ports", "missing", f"{error.strerror or error} at port {len(listeners)}", mend)
    finally:
        for listener in listeners:
            listener.close()
    return Check("loopback ports", "ok", f"{_PORTS_NEEDED} free ports opened on 127.0.0.1")


def _available_memory_bytes() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass  # not Linux: the standard library reports only the installed memory
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_memory() -> Check:
    """Check the memory for Spark's Java and its Python workers."""
    mend = "close other programs, or run fewer at once"
    mebibytes = _available_memory_bytes() // _MIB
    return _graded("memory", mebibytes, "MiB", needed=_MEMORY_NEEDED_MIB, wanted=_MEMORY_WANTED_MIB, mend=mend)


def check_disk(folder: Path) -> Check:
    """Check the disk space for logs, journals and checkpoints of runs."""
    old_runs = "; make clean removes old runs" if IS_CHECKOUT else "; ./runs contains those of earlier demos"
    mend = f"free some space where {folder} is{old_runs}"
    mebibytes = shutil.disk_usage(folder).free // _MIB
    return _graded("disk", mebibytes, "MiB", needed=_DISK_NEEDED_MIB, wanted=_DISK_WANTED_MIB, mend=mend)


def check_shared_memory(folder: Path = Path("/dev/shm"), system: str = platform.system()) -> Check:
    """Check the in-memory file system for mapped state; without one, a temporary folder is used."""
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        state = f"no writable {folder}, a temporary folder is used"
        if system == "Linux":
            return Check("shared memory", "warning", state, f"mount a tmpfs at {folder}: it is faster")
        return Check("shared memory", "ok", state)
    mend = f"give {folder} more room (with Docker: --shm-size=256m)"
    mebibytes = shutil.disk_usage(folder).free // _MIB
    return _graded("shared memory", mebibytes, "MiB", needed=0, wanted=_SHARED_MEMORY_WANTED_MIB, mend=mend)


def check_kernels(environ: Mapping[str, str]) -> Check:
    """Check the native kernels: the compiler of views, and the folder of compiled kernels, which is created if it is
    missing.
    """
    from runtime.native.cache import FOLDER_VARIABLE, SWITCH_VARIABLE, is_switched_on, kernels_from_environment

    name = "native kernels"
    try:
        kernels = kernels_from_environment(environ)
    except ValueError as error:
        return Check(name, "missing", str(error), f"set {SWITCH_VARIABLE} to on or off")
    try:
        damaged, trouble = kernels.check_folder(), ""
    except (ImportError, OSError) as error:
        damaged, trouble = [], str(error)
    status = kernels.status()
    compiler = f"llvmlite {status.llvmlite}" if status.llvmlite else "no llvmlite"
    mebibytes = status.size_bytes / _MIB
    where = (
        f"{compiler}, {status.kernels} kernels of this version in {status.folder}, which contains {mebibytes:.1f} MiB"
    )
    if not is_switched_on(environ):
        return Check(name, "ok", f"off, views are interpreted: {status.reason}; {where}")
    mend = f"make the folder writable by its owner alone, or name another folder in {FOLDER_VARIABLE}"
    if not status.is_on:
        state = f"off, views are interpreted: {status.reason}; {where}"
        return Check(name, "warning", state, mend if status.llvmlite else f"run {install_command()}")
    if trouble:
        return Check(name, "warning", f"views that are not compiled yet are interpreted: {trouble}; {where}", mend)
    if damaged:
        state = f"on: {where}; the files of {len(damaged)} kernels cannot be used, first {damaged[0]}"
        return Check(name, "warning", state, "run deltabook kernels; other views are compiled again when they are kept")
    return Check(name, "ok", f"on: {where}")


def check_classes(environ: Mapping[str, str], folder: Path | None = None) -> Check:
    """Check the archive of classes with which Spark's Java starts in half the time."""
    from runtime.spark.java import archive_path, find_java

    name = "classes of Spark"
    try:
        path = archive_path(find_java(environ), folder)
    except FileNotFoundError:  # no Java, or no Spark
        return Check(name, "warning", "nothing to archive", "see java and spark")
    if not path.is_file():
        state = f"Spark starts some 6 s later: no archive at {path}"
        is_ours = os.access(folder or sys.prefix, os.W_OK)
        return Check(name, "warning", state, "run deltabook classes") if is_ours else Check(name, "ok", state)
    return Check(name, "ok", f"{path.stat().st_size // _MIB} MiB in {path}")


def examine(environ: Mapping[str, str], folder: Path) -> list[Check]:
    """Run every check, in the order in which problems should be fixed."""
    checks: list[Callable[[], Check]] = [
        check_python,
        lambda: check_java(environ),
        check_spark,
        check_ports,
        check_memory,
        lambda: check_disk(folder),
        check_shared_memory,
        lambda: check_kernels(environ),
        lambda: check_classes(environ),
    ]
    return [check() for check in checks]


@click.command("doctor")
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Check this machine and its installation, and print how to fix what is missing.

    The exit code is 1 if a requirement of Deltabook is missing.
    """
    checks = examine(os.environ, Path.cwd())
    missing = [check.name for check in checks if check.status == "missing"]
    if as_json:
        click.echo(msgspec.json.encode({"ok": not missing, "checks": checks}))
    else:
        for check in checks:
            click.echo(f"{_MARKS[check.status]}  {check.name:<14}  {check.found}")
            if check.mend:
                click.echo(f"{'':9}{'':16}fix: {check.mend}")
        click.echo(f"doctor: missing: {', '.join(missing)}" if missing else "doctor: ok")
    context.exit(1 if missing else 0)
