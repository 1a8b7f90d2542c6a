"""docs/engine.md does what it says: its Python, run as one program, prints what stands below each block."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "engine.md"


def test_the_page_prints_what_it_says() -> None:
    text = PAGE.read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```\n\n^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == text.count("```python") == 2
    program = "".join(code for code, _ in blocks)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, encoding="utf-8", timeout=120, check=False
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [line for _, printed in blocks for line in printed.splitlines()]
