"""The Python that Spark starts on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.spark.session import quick_python

SAYS = "import os, sys; print(sys.executable, os.environ.get('PYTHONPATH'), *sys.argv[1:], sep='|')"


@pytest.mark.parametrize("own", [None, "/a/path:/another one's"])
def test_what_spark_puts_in_front_of_the_path_is_not_looked_at(tmp_path: Path, own: str | None) -> None:
    python = quick_python(tmp_path / "py thon", {} if own is None else {"PYTHONPATH": own})
    given = {**os.environ, "PYTHONPATH": "/spark/python/lib/pyspark.zip"}
    done = subprocess.run([python, "-c", SAYS, "a b"], env=given, capture_output=True, text=True, check=True)
    assert python == str(tmp_path / "py thon")
    assert done.stdout == f"{sys.executable}|{own}|a b\n"


def test_where_no_script_can_be_run_it_is_this_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "chmod", lambda *_: None)
    assert quick_python(tmp_path / "python", {}) == sys.executable
