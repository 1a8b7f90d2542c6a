"""The Docker engine: its command line, with every failure as one error that says what was asked."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

__all__ = ["Engine", "EngineError", "find_engine"]

_MOST_SAID: Final = 4_000
"""Characters of what a command said that an error repeats, from its end."""
_LOOK_S: Final = 60.0


class EngineError(RuntimeError):
    """The engine is not there, or a command of it failed."""


class Engine:
    """Runs ``docker`` in the environment of the tests, which says where the engine is (``DOCKER_HOST``, a context)."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """``environment`` replaces that of the tests."""
        self._environment = None if environment is None else dict(environment)

    def run(
        self,
        *arguments: str,
        timeout_s: float = 300.0,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> str:
        """What a command of docker prints; raises `EngineError` if it fails or takes longer than ``timeout_s``.

        ``environment`` comes on top of the tests' own.
        """
        return self.output(
            *arguments, timeout_s=timeout_s, stdin=stdin, environment=environment, directory=directory
        ).decode("utf-8", "replace")

    def output(
        self,
        *arguments: str,
        timeout_s: float = 300.0,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> bytes:
        """The same as bytes."""
        command = ["docker", *arguments]
        try:
            done = subprocess.run(
                command,
                input=stdin,
                capture_output=True,
                timeout=timeout_s,
                check=False,
                env=self._with(environment or {}),
                cwd=directory,
            )
        except FileNotFoundError:
            raise EngineError("expected the command docker, was none on PATH") from None
        except subprocess.TimeoutExpired as late:
            said = _end(late.stdout, late.stderr)
            raise EngineError(
                f"expected an end of `{_words(command)}` within {timeout_s:g} s, was none\n{said}"
            ) from None
        if done.returncode:
            said = _end(done.stdout, done.stderr)
            raise EngineError(f"expected `{_words(command)}` to succeed, was exit code {done.returncode}\n{said}")
        return done.stdout

    def _with(self, environment: Mapping[str, str]) -> dict[str, str] | None:
        if not environment:
            return self._environment
        return {**(os.environ if self._environment is None else self._environment), **environment}


def find_engine() -> Engine:
    """The engine of this machine; raises `EngineError` where none answers or the compose plugin is missing."""
    engine = Engine()
    engine.run("info", timeout_s=_LOOK_S)
    engine.run("compose", "version", timeout_s=_LOOK_S)
    return engine


def _words(command: Sequence[str]) -> str:
    return " ".join(command)[:300]


def _end(*streams: bytes | None) -> str:
    return "\n".join(stream.decode("utf-8", "replace").strip()[-_MOST_SAID:] for stream in streams if stream)
