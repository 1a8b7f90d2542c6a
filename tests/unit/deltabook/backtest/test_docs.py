"""The examples of docs/backtest.md print what they say."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

DOCS = Path(__file__).parents[4] / "docs" / "backtest.md"
BLOCK = re.compile(r"^```(python|output)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_examples_run_one_after_another() -> None:
    blocks = BLOCK.findall(DOCS.read_text("utf-8"))
    assert [kind for kind, _ in blocks] == ["python", "output"] * 3
    names: dict[str, object] = {}
    for (_, code), (_, expected) in zip(blocks[::2], blocks[1::2], strict=True):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(code, str(DOCS), "exec"), names)
        assert said.getvalue() == expected
