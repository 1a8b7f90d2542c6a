"""The checker of the English in production code: what it finds, and that a package only gets better."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


def _loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("english", ROOT / "scripts" / "english.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["english"] = module
    spec.loader.exec_module(module)
    return module


english = _loaded()


def lines(source: str) -> list[int]:
    return [finding.line for finding in english.findings("package/part/module.py", source)]


@pytest.mark.parametrize(
    "source",
    [
        '"""Of the limit: what is let in again."""',
        'x = 1\n"""Of an execution."""',
        '"""Takes rows. Of those, as they come: none."""',
        "# Behind each row: its weight",
        '"""Belongs to who owns the state."""',
        '"""Who listens."""',
        '"""Closed by whoever opened it."""',
        '"""Reads. See the module."""',
        '"""Computes the view anew."""',
        "# Views that strategies bring along",
        '"""Fail for good."""',
        "# the order is gone",
        '"""Rows by key. They lie in the object space."""',
        "# slot s stands at index s % slots",
        '"""Packet that is no tuple."""',
        '"""Return the record of a line; raise `WireError`."""',
        '"""Bytes do not fit; the message says what was expected."""',
        "found = 1",
        "def told() -> None: ...",
        "def f(held: int) -> None: ...",
        "class C:\n    one: int",
        "self._said = 1",
        "for one in (): ...",
    ],
)
def test_a_bad_pattern_is_found_once(source: str) -> None:
    assert len(lines(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        '"""Number of the first row, one for each broker who trades."""',
        '"""Sum that lies between two bounds; 0 stands for none, and there is no row that is no longer needed."""',
        '"""Rows that were found. A broker who buys is told."""',
        "# The order of the levels: best first, a tick behind the touch",
        'message = "who is told of the one that was found"',
        "total = found + one.held",
        'words = f"{told} of what was said"',
    ],
)
def test_plain_english_passes(source: str) -> None:
    assert lines(source) == []


def test_comments_that_follow_each_other_are_one_text() -> None:
    assert lines("# Sent to a client\n# who waits.\nx = 1\n# Who waits.\n") == [4]


@pytest.mark.parametrize(("prefix", "length", "count"), [("test_", 60, 1), ("test_", 59, 0), ("case_", 60, 0)])
def test_names_of_tests_have_fewer_than_60_characters(prefix: str, length: int, count: int) -> None:
    """Methods and coroutines too; helpers may have longer names."""
    name = prefix.ljust(length, "x")
    source = f"class TestIt:\n    async def {name}(self): ...\ndef {name}(): ..."
    assert len(list(english.long_names("tests/test_it.py", source))) == 2 * count


@pytest.mark.slow
def test_the_tree_has_no_finding(capsys: pytest.CaptureFixture[str]) -> None:
    assert english.main([]) == 0, capsys.readouterr().out
