"""Whoever decodes bytes from outside expects text that is not UTF-8, for which msgspec raises another error."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import msgspec
import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("algo_engine", "deltabook", "exchange_server", "runtime")
DECODING: Final = {"DecodeError", "MsgspecError"}
UNICODE: Final = {"UnicodeDecodeError", "UnicodeError", "ValueError", "Exception"}


def names(node: ast.AST | None) -> set[str]:
    """The last parts of all names in an expression."""
    parts = [] if node is None else list(ast.walk(node))
    return {part.attr for part in parts if isinstance(part, ast.Attribute)} | {
        part.id for part in parts if isinstance(part, ast.Name)
    }


def forgetful(path: Path) -> list[int]:
    """The lines of handlers that catch msgspec's errors and no text that is not UTF-8."""
    found = []
    for tried in ast.walk(ast.parse(path.read_text())):
        if not isinstance(tried, ast.Try) or any("decode_strictly" in names(line) for line in tried.body):
            continue
        caught = [names(handler.type) for handler in tried.handlers]
        if any(each & DECODING for each in caught) and not any(each & UNICODE for each in caught):
            found.append(tried.lineno)
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_handlers_of_decoding_errors_expect_bad_text(package: str) -> None:
    lines = [f"{path}:{line}" for path in sorted((ROOT / package).rglob("*.py")) for line in forgetful(path)]
    assert lines == []


@pytest.mark.parametrize(("decoder", "data"), [(msgspec.json, b'"\xff"'), (msgspec.msgpack, b"\xa1\xff")])
def test_bad_text_is_no_error_of_msgspec(decoder: object, data: bytes) -> None:
    """If this changes, the handlers need one class again."""
    with pytest.raises(UnicodeDecodeError):
        decoder.decode(data)  # type: ignore[attr-defined]
