"""Operator of an exchange at the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from click.testing import CliRunner, Result

from deltabook.cli import main
from deltabook.cli._options import ConfigFileError
from deltabook.cli._ports import AdminPort
from tests.generators.operated import Operated

__all__ = ["Operator"]

_FRAMES = str.maketrans(dict.fromkeys("│┃┏┓┗┛━─┳┻┡┩╇┴└┘┼╋┄", " "))


class Operator:
    """Runs `deltabook exchange` against the admin port of an exchange in memory."""

    def __init__(self, operated: Operated) -> None:
        self._operated = operated

    def run(self, *arguments: str) -> Result:
        """Run a command line, and return its result."""
        with self._connected(), patch.object(sys, "argv", ["deltabook", *arguments]):
            return CliRunner().invoke(main, ["exchange", *arguments, "--admin", "127.0.0.1:1"])

    def says(self, *arguments: str) -> str:
        """Return the output of a successful command as words, without the lines of its tables."""
        result = self.run(*arguments)
        assert result.exit_code == 0, result.output
        return " ".join(result.stdout.translate(_FRAMES).split())

    @contextmanager
    def _connected(self) -> Iterator[None]:
        def ask(port: AdminPort, method: str, path: str, body: bytes | None = None) -> bytes:
            del port
            answer = self._operated.ask(path, method, body or b"")
            if answer.status != 200:
                raise ConfigFileError(answer.text)
            return answer.body

        with patch.object(AdminPort, "ask", ask):
            yield
