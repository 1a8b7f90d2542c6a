"""The Docker engine: its command line, with every failure as one error that says what was asked."""

from __future__ import annotations

import os
import subprocess
import sys
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

    def __init__(self, compose: Sequence[str] = ("docker", "compose")) -> None:
        """``compose`` is its command line for compose."""
        self._compose = tuple(compose)

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
        command = [*self._compose, *arguments[1:]] if arguments[0] == "compose" else ["docker", *arguments]
        try:
            done = subprocess.run(
                command,
                input=stdin,
                capture_output=True,
                timeout=timeout_s,
                check=False,
                env={**os.environ, **(environment or {})},
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
        return done.stdout.decode("utf-8", "replace")


def find_engine() -> Engine:
    """The engine of this machine, with its own plugin for compose or else the one of the development dependencies.

    Raises `EngineError` where none answers.
    """
    engine = Engine()
    engine.run("info", timeout_s=_LOOK_S)
    try:
        engine.run("compose", "version", timeout_s=_LOOK_S)
    except EngineError:
        engine = Engine([str(Path(sys.executable).with_name("docker-compose"))])
        engine.run("compose", "version", timeout_s=_LOOK_S)
    return engine


def _words(command: Sequence[str]) -> str:
    return " ".join(command)[:300]


def _end(*streams: bytes | None) -> str:
    return "\n".join(stream.decode("utf-8", "replace").strip()[-_MOST_SAID:] for stream in streams if stream)
