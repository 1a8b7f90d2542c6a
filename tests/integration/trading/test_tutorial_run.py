"""The tutorial, command by command, as a newcomer gives them."""

from __future__ import annotations

import csv
import json
import random
import re
import shlex
import socket
import subprocess
import sys
import urllib.request
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.generators.tutorial import DELTABOOK, PAGE, Command, SavedFile, Stop, steps
from tests.integration._processes import Running

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]
COMMAND_S = 400
PORT = re.compile(r"(?<=127\.0\.0\.1:)\d{4}\b|(?<=port )\d{4}\b")


def free_port() -> int:
    """A port that nobody has, out of those that a system gives to nobody who does not name one."""
    while True:
        port = random.SystemRandom().randrange(20_000, 30_000)
        with closing(socket.socket()) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Reader:
    """Does what the page says, in a folder of its own and at ports that are free."""

    def __init__(self, folder: Path, terminals: ExitStack) -> None:
        self.folder, self._terminals = folder, terminals
        self.running: list[Running] = []
        self._ports: dict[str, str] = {}

    def there(self, text: str) -> str:
        """A text with our ports in place of the page's."""
        return PORT.sub(lambda found: self._ports.setdefault(found[0], str(free_port())), text)

    def save(self, file: SavedFile) -> None:
        """Save a file as it stands on the page."""
        path = self.folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text)

    def give(self, command: Command) -> None:
        """Give a command; one that goes on running until it serves, and has done something worth a look."""
        if command.words == ("make", "setup"):
            subprocess.run(["make", "--dry-run", "setup"], cwd=ROOT, check=True, capture_output=True)
            return
        assert command.words[0] == DELTABOOK, command
        given = list(command.words[1:])
        own = given[: given.index("|")] if "|" in given else given  # the rest only shortens what is printed
        words = shlex.split(self.there(shlex.join(own)))
        if not command.is_server:
            done = subprocess.run(
                [sys.executable, "-m", "deltabook", *words],
                capture_output=True,
                text=True,
                timeout=COMMAND_S,
                check=False,
            )
            assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
            assert done.stdout.strip(), words
            return
        process = self._terminals.enter_context(Running(*words))
        process.ready()
        self.running.append(process)
        if words[0] == "algo":
            process.wait_for("fills", 5)
        if words[0] == "runtime":
            process.wait_for("messages", 1_000)

    def stop(self) -> None:
        """Ctrl-C, the strategy first."""
        for process in reversed(self.running):
            process.interrupt()


def test_a_newcomer_comes_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "queries").symlink_to(ROOT / "queries")
    with ExitStack() as terminals:
        reader = Reader(tmp_path, terminals)
        for step in steps():
            match step:
                case SavedFile():
                    reader.save(step)
                case Command():
                    reader.give(step)
                    if step.words[1] == "dashboard":
                        (page,) = re.findall(r"<(http://[^>]*)>", PAGE.read_text())
                        with urllib.request.urlopen(reader.there(page), timeout=30) as answer:
                            assert b"<title>" in answer.read()
                case Stop():
                    reader.stop()
    left = tmp_path / "runs" / "tutorial"
    with (left / "trades.csv").open() as file:
        assert {row["strategy"] for row in csv.DictReader(file)} == {"walls"}
    assert (left / "day.itch").stat().st_size > 10_000
    result = json.loads((left / "backtest" / "result.json").read_text())
    assert result["strategies"][0]["name"] == "walls"
    assert (left / "backtest" / "report.html").stat().st_size > 10_000
    assert any((left / "sweep").glob("*.html"))
