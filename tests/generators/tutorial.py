"""The tutorial's steps for its reader: files to save, commands to run, and stops of running commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import msgspec

__all__ = ["DELTABOOK", "PAGE", "Command", "SavedFile", "Step", "Stop", "steps"]

PAGE: Final = Path(__file__).parents[2] / "docs" / "tutorial.md"
DELTABOOK: Final = ".venv/bin/deltabook"
_STEP: Final = re.compile(r"^```(\w+)\n(.*?)^```$|^<!-- (stop) -->$", re.MULTILINE | re.DOTALL)
_TITLE: Final = re.compile(r"(?:#|--) (runs/tutorial/[\w.]+)\n")
_SERVERS: Final = frozenset({"exchange", "runtime", "dashboard"})


class SavedFile(msgspec.Struct, frozen=True):
    """File whose name is in its first line."""

    path: str
    text: str


class Command(msgspec.Struct, frozen=True):
    """Command for the shell."""

    words: tuple[str, ...]

    @property
    def is_server(self) -> bool:
        """True if it keeps running."""
        _, *words = self.words
        return words[:2] == ["algo", "run"] or (words[0] in _SERVERS and words[1].startswith("-"))


class Stop(msgspec.Struct, frozen=True):
    """Ctrl-C in all terminals."""


Step = SavedFile | Command | Stop


def steps() -> list[Step]:
    """Return all steps, in their order; raise `ValueError` for a block that is neither a file nor commands."""
    found: list[Step] = []
    for language, text, stop in _STEP.findall(PAGE.read_text(encoding="utf-8")):
        if stop:
            found.append(Stop())
        elif language == "sh":
            found += [Command(tuple(shlex.split(line))) for line in text.replace("\\\n", " ").splitlines()]
        elif title := _TITLE.match(text):
            found.append(SavedFile(title[1], text))
        else:
            raise ValueError(f"expected the name of a file in the first line of a block, was {text.splitlines()[0]!r}")
    return found
