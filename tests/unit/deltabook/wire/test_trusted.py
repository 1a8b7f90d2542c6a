"""Files with secrets are believed only if nobody but their owner may write them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deltabook.wire.access import PortSecurity, read_token
from deltabook.wire.errors import AccessError
from deltabook.wire.trusted import misuse_of_trusted
from runtime.spark.config import SparkLaneError
from runtime.spark.settings import read_secret


def file(folder: Path, mode: int) -> Path:
    path = folder / "token"
    path.write_text("0123456789abcdef\n")
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o644, 0o640])
def test_a_file_that_its_owner_alone_writes_is_trusted(tmp_path: Path, mode: int) -> None:
    assert misuse_of_trusted(file(tmp_path, mode)) == ""


@pytest.mark.parametrize("mode", [0o602, 0o646, 0o666])
def test_a_file_that_everybody_writes_is_not(tmp_path: Path, mode: int) -> None:
    path = file(tmp_path, mode)
    assert misuse_of_trusted(path) == (
        f"expected {path} to be writable by its owner alone (chmod go-w), was mode {mode:04o}"
    )


def test_a_group_of_others_may_not_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file(tmp_path, 0o660)
    group = path.stat().st_gid
    for user, is_trusted in ((group, True), (group + 1, False)):
        monkeypatch.setattr(os, "getegid", lambda: group)
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert (misuse_of_trusted(path) == "") is is_trusted


def test_a_token_that_everybody_writes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="to be writable by its owner alone"):
        read_token(str(file(tmp_path, 0o666)))


def test_a_port_with_such_a_token_does_not_open(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="to be writable by its owner alone"):
        PortSecurity(token_file=str(file(tmp_path, 0o622))).check("127.0.0.1")


def test_a_secret_of_spark_that_everybody_writes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SparkLaneError, match="to be writable by its owner alone"):
        read_secret(file(tmp_path, 0o666))
