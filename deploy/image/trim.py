"""Removes files that no container needs from an environment: tests, machine learning, native code of other platforms.

``python trim.py ENVIRONMENT`` prints the sizes before and after. It saves about 0.25 of 1.2 gigabytes.
"""

from __future__ import annotations

import platform
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Final

_FOLDERS: Final = ("pyarrow/include", "pyspark/data", "pyspark/examples")
_FLIGHT: Final = "pyarrow/*flight*"
"""Arrow's network service, which nothing here imports."""
_TESTS: Final = frozenset({"test", "tests"})
"""Names of folders with the tests of packages, which nothing imports."""
_LEARNING: Final = ("algebra_", "arpack", "blas-", "breeze", "cats-kernel", "lapack", "netlib", "spark-mllib_", "spire")
"""Jars of Spark's machine learning, which no other part of Spark loads."""
_STORE: Final = "rocksdbjni-"
_NATIVE: Final = (".dll", ".jnilib", ".so")
_OWN_NATIVE: Final = {"x86_64": "librocksdbjni-linux64.so", "aarch64": "librocksdbjni-linux-aarch64.so"}


def _without_other_natives(jar: Path) -> None:
    """Write a jar again with the native code of this machine alone."""
    own = _OWN_NATIVE[platform.machine()]
    hidden = jar.with_suffix(".new")
    with zipfile.ZipFile(jar) as old, zipfile.ZipFile(hidden, "w", zipfile.ZIP_DEFLATED) as new:
        if own not in old.namelist():
            raise SystemExit(f"expected {own} in {jar.name}, was {', '.join(old.namelist()[:20])}")
        for item in old.infolist():
            if item.filename == own or not item.filename.endswith(_NATIVE):
                new.writestr(item, old.read(item))
    hidden.replace(jar)


def trim(site: Path) -> None:
    """Trim a folder of packages."""
    for name in _FOLDERS:
        shutil.rmtree(site / name)
    for folder in [path for path in site.rglob("*") if path.name in _TESTS and path.is_dir()]:
        shutil.rmtree(folder, ignore_errors=True)  # a folder within another one was removed with it
    for path in site.glob(_FLIGHT):
        path.unlink()
    for jar in sorted((site / "pyspark" / "jars").glob("*.jar")):
        if jar.name.startswith(_LEARNING):
            jar.unlink()
        elif jar.name.startswith(_STORE):
            _without_other_natives(jar)


def _megabytes(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*")) // 10**6


def main() -> None:
    """Trim the environment that the command line names."""
    (site,) = Path(sys.argv[1]).glob("lib/python3.*/site-packages")
    before = _megabytes(site)
    trim(site)
    sys.stdout.write(
        f"{site}: {before} MB, {_megabytes(site)} MB without tests, machine learning and other platforms' code\n"
    )


if __name__ == "__main__":
    main()
