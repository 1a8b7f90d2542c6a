"""The examples of docs/python.md print what they say."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "python.md"
BLOCK = re.compile(r"^```(python|output)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.timeout(600)  # seven runs, and libraries that are slow to import
def test_the_examples_run_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    assert [kind for kind, _ in blocks] == ["python", "output"] * 6
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for (_, code), (_, expected) in zip(blocks[::2], blocks[1::2], strict=True):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(code, str(PAGE), "exec"), names)
        assert said.getvalue() == expected
    assert (tmp_path / "tearsheet.png").read_bytes().startswith(b"\x89PNG")
