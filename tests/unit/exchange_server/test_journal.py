"""The journal keeps exactly what was written whole, and says what it cut."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from exchange_server.clock import MarketClock
from exchange_server.errors import DirectoryInUseError, ExchangeConfigurationError, JournalError
from exchange_server.exchange import Exchange
from exchange_server.inputs import CLIENT, Input, MarketRules
from exchange_server.journal import InputsLog, Journal, LineFile
from tests.generators.market import RULES


def journal_in(path: Path, rules: MarketRules = RULES) -> Journal:
    return Journal(path, rules, lambda: "SESSION1")


def order(number: int, side: str = "B", price: int = 100) -> Input:
    return Input(CLIENT, 1000 + number, number, 0, number % 3, side, 5, price, "ACME")


BATCHES = [[order(3 * n, "B", 95 + n), order(3 * n + 1, "S", 98 + n), order(3 * n + 2, "B", 99)] for n in range(1, 6)]


def run(path: Path, batches: list[list[Input]]) -> dict[str, bytes]:
    """Submit batches to an exchange in a directory; what its lines are afterwards."""
    exchange = Exchange(journal_in(path), MarketClock(lambda: 0.0, 0))
    for batch in batches:
        exchange.submit(batch)
    exchange.market._check()
    exchange.close()
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*.lines"))}


def test_a_journal_torn_at_any_byte_of_its_last_records_recovers_to_the_last_whole_one(tmp_path: Path) -> None:
    whole = [run(tmp_path / f"{count}", BATCHES[:count]) for count in range(len(BATCHES) + 1)]
    ends = [(tmp_path / f"{count}" / "inputs").stat().st_size for count in range(len(BATCHES) + 1)]
    data = (tmp_path / "5" / "inputs").read_bytes()
    for size in range(ends[3], ends[5] + 1):
        torn = tmp_path / "torn"
        torn.mkdir(exist_ok=True)
        (torn / "inputs").write_bytes(data[:size])
        survived = 5 if size == ends[5] else 4 if size >= ends[4] else 3
        assert run(torn, []) == whole[survived], f"torn at byte {size}"
        assert (torn / "inputs").stat().st_size == ends[survived]
        assert run(torn, BATCHES[survived:]) == whole[5], f"continued after a tear at byte {size}"


def test_a_last_record_with_any_byte_changed_is_cut(tmp_path: Path) -> None:
    run(tmp_path / "a", BATCHES[:2])
    end = (tmp_path / "a" / "inputs").stat().st_size
    whole = run(tmp_path / "a", [])
    run(tmp_path / "b", BATCHES[:3])
    data = bytearray((tmp_path / "b" / "inputs").read_bytes())
    for position in range(end + 4, len(data), 7):
        data[position] ^= 0x55
        (tmp_path / "a" / "inputs").write_bytes(data)
        assert run(tmp_path / "a", []) == whole
        data[position] ^= 0x55


def test_damage_with_whole_records_behind_it_is_not_taken_for_a_torn_tail(tmp_path: Path) -> None:
    run(tmp_path, BATCHES[:1])
    end = (tmp_path / "inputs").stat().st_size
    run(tmp_path, BATCHES[1:3])
    data = bytearray((tmp_path / "inputs").read_bytes())
    data[end + 12] ^= 1
    (tmp_path / "inputs").write_bytes(data)
    with pytest.raises(JournalError, match=f"damaged one with whole records behind it, at byte {end} "):
        run(tmp_path, [])
    assert (tmp_path / "inputs").read_bytes() == bytes(data)


@pytest.mark.parametrize("content", [b"", b"1,2,garbage\n" * 9])
def test_lines_that_a_crash_left_behind_or_ahead_are_made_again(tmp_path: Path, content: bytes) -> None:
    whole = run(tmp_path, BATCHES)
    for name in whole:
        (tmp_path / name).write_bytes(content)
    assert run(tmp_path, []) == whole


def test_a_session_outlives_the_process_and_a_new_directory_is_a_new_one(tmp_path: Path) -> None:
    first = Journal(tmp_path / "a", RULES, lambda: "ONE")
    first.close()
    again = Journal(tmp_path / "a", RULES, lambda: "TWO")
    other = Journal(tmp_path / "b", RULES, lambda: "TWO")
    assert (again.session, other.session) == ("ONE", "TWO")
    again.close()
    other.close()


def test_a_directory_has_one_exchange_at_a_time(tmp_path: Path) -> None:
    first = journal_in(tmp_path)
    with pytest.raises(DirectoryInUseError, match=f"in use by another exchange .process {os.getpid()}"):
        journal_in(tmp_path)
    first.close()
    journal_in(tmp_path).close()


def test_other_rules_need_another_directory(tmp_path: Path) -> None:
    journal_in(tmp_path).close()
    with pytest.raises(ExchangeConfigurationError, match=r"began with \(ACME, GLOBEX\), was ACME"):
        journal_in(tmp_path, MarketRules(instruments=RULES.instruments[:1]))


def test_a_file_that_is_no_journal_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "inputs").write_bytes(b"something else entirely")
    with pytest.raises(JournalError, match="expected a journal's head"):
        journal_in(tmp_path)
    assert (tmp_path / "inputs").read_bytes() == b"something else entirely"


@pytest.mark.parametrize(("policy", "synced"), [("always", 1), ("interval", 0), ("never", 0)])
def test_the_fsync_policy_decides_whether_an_append_waits_for_the_disk(
    tmp_path: Path, policy: str, synced: int
) -> None:
    journal_in(tmp_path).close()
    calls: list[int] = []
    log = InputsLog(tmp_path / "inputs", policy, sync=calls.append)  # type: ignore[arg-type]
    list(log.recover())
    log.append(BATCHES[0])
    assert len(calls) == synced
    log.sync()
    assert len(calls) == (0 if policy == "never" else 1)
    log.close()


def test_any_line_is_found_again_however_small_the_index(tmp_path: Path) -> None:
    lines = LineFile(tmp_path / "lines", index_limit=4)
    for burst in range(200):
        count = burst % 7 + 90
        lines.append(b"".join(b"%d\n" % (lines.next_number + n) for n in range(count)), count)
    for number in [*range(1, lines.next_number, 97), lines.next_number - 1]:
        assert lines.read(lines.offset_of(number), 10) == b"%d\n" % number * (10 // len(b"%d\n" % number)) or (
            lines.read(lines.offset_of(number), 10).startswith(b"%d\n" % number)
        )
    assert lines.offset_of(lines.next_number) == lines.size_bytes
    assert len(lines._numbers) <= 4
    with pytest.raises(ValueError, match="from 1 to"):
        lines.offset_of(lines.next_number + 1)


def test_a_released_line_file_goes_on_where_it_was(tmp_path: Path) -> None:
    lines = LineFile(tmp_path / "lines")
    lines.append(b"1\n", 1)
    lines.release()
    lines.append(b"2\n", 1)
    assert lines.read(0, 100) == b"1\n2\n"
