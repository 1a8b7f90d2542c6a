"""``deltabook algo run`` says in one line which of its options is wrong, before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from deltabook.cli import main


@pytest.mark.parametrize("option", ["--results", "--orders"])
@pytest.mark.parametrize("given", ["http://here", "here", "127.0.0.1:", "127.0.0.1:0", ":1"])
def test_an_address_that_is_none_is_named_with_its_option(tmp_path: Path, option: str, given: str) -> None:
    options = {"--results": "127.0.0.1:1", "--orders": "127.0.0.1:1", "--dir": str(tmp_path / "algo"), option: given}
    done = CliRunner().invoke(main, ["algo", "run", "sobi", *(word for pair in options.items() for word in pair)])
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"expected HOST:PORT for {option}, was {given!r}" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
