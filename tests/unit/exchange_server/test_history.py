"""What a journal says of the past is what was, and what does not follow from its inputs is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exchange_server.errors import JournalError, OperationError
from exchange_server.exchange import Exchange
from exchange_server.journal.history import History
from exchange_server.journal.verification import verify
from tests.generators.journals import make_outputs, open_exchange, random_inputs

RULES, INPUTS = random_inputs(8, 400)
STOPS = (100, 200, 300)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal with three snapshots."""
    fill(tmp_path)
    return tmp_path


def fill(path: Path, forms: tuple[str, ...] = ("text", "itch"), **journal: Any) -> None:
    exchange = open_exchange(path, RULES, forms, **journal)
    for at in range(0, len(INPUTS), 10):
        exchange.submit(INPUTS[at : at + 10])
        if exchange.inputs in STOPS:
            exchange.snapshot()
    exchange.close()


@pytest.fixture
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    """An exchange that goes through the same, one input at a time."""
    exchange = open_exchange(tmp_path_factory.mktemp("lived"), RULES)
    yield exchange
    exchange.close()


def test_the_hash_at_every_input_is_that_of_the_market_then(path: Path, lived: Exchange) -> None:
    history = History(path, make_outputs)
    for number, item in enumerate(INPUTS, 1):
        lived.submit([item])
        if number % 13 == 0 or number in STOPS:
            moment = history.at_input(number)
            assert (moment.inputs, moment.time_ns) == (number, item.time_ns)
            assert moment.state_hash == lived.market.state_hash(), f"at input {number}"
    assert history.now().state_hash == lived.market.state_hash()


@pytest.mark.parametrize("form", ["text", "itch"])
def test_the_hash_at_every_message_is_that_after_its_input(path: Path, lived: Exchange, form: str) -> None:
    history = History(path, make_outputs)
    records = lived.feeds[form].records
    for number, item in enumerate(INPUTS, 1):
        before = records.next_number
        lived.submit([item])
        for message in range(before, records.next_number):
            if message % 17 == 0:
                moment = history.at_message(message, form)
                assert (moment.inputs, moment.messages) == (number, {form: records.next_number - 1})
                assert moment.state_hash == lived.market.state_hash(), f"at message {message}"


def test_what_never_was_is_said(path: Path) -> None:
    history = History(path, make_outputs)
    with pytest.raises(OperationError, match="expected an input of 0 or more, was -1"):
        history.at_input(-1)
    with pytest.raises(OperationError, match="expected an input up to 400, was 401"):
        history.at_input(401)
    with pytest.raises(OperationError, match=r"expected a message of the feed up to \d+, was 100000"):
        history.at_message(100_000)
    with pytest.raises(OperationError, match=r"expected a form of the feed \(text, itch\), was fix"):
        history.at_message(1, "fix")
    with pytest.raises(JournalError, match=r"expected a journal at .*, was none"):
        History(path / "private", make_outputs)


def test_the_past_can_be_looked_at_while_the_exchange_runs(path: Path) -> None:
    exchange = open_exchange(path, RULES)
    assert History(path, make_outputs).now().state_hash == exchange.market.state_hash()
    exchange.close()


def test_a_good_journal_has_no_problems(path: Path, lived: Exchange) -> None:
    lived.submit(INPUTS)
    found = verify(path, make_outputs)
    assert found.problems == ()
    assert (found.first, found.inputs, found.snapshots, found.torn_bytes) == (1, 400, STOPS, 0)
    assert found.state_hash == lived.market.state_hash()
    files = [*path.glob("feed.*"), *path.glob("private/*")]
    assert found.compared_bytes == {str(file.relative_to(path)): file.stat().st_size for file in files}
    assert found.messages == {form: stream.records.next_number - 1 for form, stream in lived.feeds.items()}


def test_looking_changes_nothing(path: Path) -> None:
    (path / "inputs" / f"{301:015d}.inputs").open("ab").write(b"half a record")
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    assert verify(path, make_outputs).torn_bytes == 13
    History(path, make_outputs).at_input(350)
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize("pattern", ["feed.lines", "feed.itch", "private/*"])
@pytest.mark.parametrize("place", [0, 500, -1])
def test_a_changed_byte_of_a_stream_is_named(path: Path, pattern: str, place: int) -> None:
    file = max(path.glob(pattern), key=lambda file: file.stat().st_size)
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)
    assert verify(path, make_outputs).problems == (
        f"expected what follows from the inputs in {file}, was other at byte {place % len(data)}",
    )


@pytest.mark.parametrize(("change", "words"), [(3, "3 bytes more"), (-7, "7 bytes less")])
def test_a_stream_that_is_too_long_or_too_short_is_named(path: Path, change: int, words: str) -> None:
    data = (path / "feed.lines").read_bytes()
    (path / "feed.lines").write_bytes(data + b"?" * change if change > 0 else data[:change])
    assert verify(path, make_outputs).problems == (
        f"expected what follows from the inputs in {path / 'feed.lines'}, were {words}",
    )


def test_a_damaged_snapshot_and_one_of_another_market_are_named(
    path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    snapshots = path / "snapshots"
    (snapshots / f"{100:015d}.snapshot").write_bytes(b"?")
    other = open_exchange(tmp_path_factory.mktemp("other"), RULES)
    other.submit(INPUTS[:199])
    other.submit(INPUTS[200:201])
    other.snapshot()
    other.close()
    (snapshots / f"{200:015d}.snapshot").write_bytes(
        (other.journal.directory / "snapshots" / f"{200:015d}.snapshot").read_bytes()
    )
    found = verify(path, make_outputs)
    assert found.snapshots == (300,)
    assert [problem.split(": ", 1)[1] for problem in found.problems] == [
        "expected a snapshot, was something else",
        "expected the market that follows from the inputs, was another",
    ]


def test_damage_in_the_middle_of_the_inputs_is_named(path: Path) -> None:
    segment = path / "inputs" / f"{101:015d}.inputs"
    data = bytearray(segment.read_bytes())
    data[-40] ^= 1
    segment.write_bytes(data)
    found = verify(path, make_outputs)
    assert found.inputs < 200
    assert "damaged record with whole records after it, at byte" in found.problems[0]
    assert str(segment) in found.problems[0]


def test_where_the_beginning_is_gone_the_rest_is_verified(tmp_path: Path) -> None:
    fill(tmp_path, keep=2)
    found = verify(tmp_path, make_outputs)
    assert (found.first, found.inputs, found.snapshots, found.problems) == (201, 400, (300,), ())
    with pytest.raises(JournalError, match="since inputs before 201 no longer exist: there is none"):
        History(tmp_path, make_outputs).at_input(150)
    assert History(tmp_path, make_outputs).at_input(250).inputs == 250


def test_an_exchange_with_one_form_has_a_verified_past(tmp_path: Path) -> None:
    fill(tmp_path, ("text",), keep=2)
    found = verify(tmp_path, make_outputs)
    assert (found.snapshots, found.problems, set(found.messages)) == ((300,), (), {"text"})
    assert History(tmp_path, make_outputs).at_input(350).inputs == 350
