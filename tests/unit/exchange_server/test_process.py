"""What the process of an exchange sets for all of Python, in processes of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(code: str) -> str:
    """What a Python process prints that runs some lines."""
    begin = "from exchange_server.process import choose_reactor, settle\n"
    done = subprocess.run([sys.executable, "-c", begin + code], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("name", "kind"), [("select", "SelectReactor"), ("poll", "PollReactor"), ("asyncio", "AsyncioSelectorReactor")]
)
def test_the_reactor_is_the_one_that_is_named(name: str, kind: str) -> None:
    assert run(f"print(type(choose_reactor('{name}')).__name__)") == kind


def test_a_reactor_is_chosen_once() -> None:
    code = "choose_reactor('default')\ntry: choose_reactor('select')\nexcept ValueError as error: print(error)"
    assert run(code) == "expected to choose a reactor first, was select after another"


def test_objects_of_the_start_are_not_collected() -> None:
    code = (
        "import gc\nkept = [[] for _ in range(1000)]\nsettle()\nprint(gc.get_freeze_count() > 1000, gc.get_threshold())"
    )
    assert run(code) == "True (50000, 20, 100)"


def test_nothing_chooses_a_reactor_by_being_imported() -> None:
    code = "import exchange_server.app, sys\nprint('twisted.internet.reactor' in sys.modules)"
    assert run(code) == "False"
