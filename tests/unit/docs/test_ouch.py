"""docs/ouch.md does what it says: its Python prints what stands below it, and every code that is sent stands in it."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from deltabook.wire.ouch5 import OPTIONS, RejectReason
from exchange_server.nasdaq.ouch.protocol import CANCELED_5, REJECTED_5, REJECTED_42

PAGE = (Path(__file__).parents[3] / "docs" / "ouch.md").read_text("utf-8")


def test_the_program_prints_what_stands_below_it() -> None:
    program, printed = re.findall(r"```(?:python)?\n(.*?)```", PAGE, re.DOTALL)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(program, {})
    assert said.getvalue() == printed


def test_every_code_that_is_sent_is_in_a_table() -> None:
    five, four = PAGE.split("## OUCH 4.2")
    told = {int(code, 16) for code in re.findall(r"`(0x[0-9A-F]{2})`", five)}
    rejected = five.split("| `J` | |")[1]
    assert set(REJECTED_5.values()) <= told <= set(RejectReason)
    assert {chr(letter) for letter in CANCELED_5.values()} == set(
        re.findall(r"`([A-Z])`", rejected.split("| `C` | |")[1])
    )
    letters = set(re.findall(r"`([A-Za-z])`", four.split("| `J` | |")[1]))
    assert {chr(letter) for letter in REJECTED_42.values()} <= letters


def test_every_option_is_in_the_table() -> None:
    rows = re.findall(r"^\| ([\d ]+) \| ", PAGE, re.MULTILINE)
    assert sorted(int(tag) for row in rows for tag in row.split()) == sorted(OPTIONS)
