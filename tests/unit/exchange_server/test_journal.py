"""The journal keeps exactly what was written whole, and says what it cut."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from pathlib import Path

import pytest

from deltabook.wire.symbols import Instrument
from exchange_server.errors import (
    DirectoryInUseError,
    ExchangeConfigurationError,
    JournalDamagedError,
    JournalError,
)
from exchange_server.exchange import Exchange
from exchange_server.journal import Journal, JournalReader
from exchange_server.matching.inputs import AnyInput, MarketRules
from tests.generators.journals import account, enter, forget_boot, open_exchange

RULES = MarketRules(instruments=(Instrument("ACME"), Instrument("GLOBEX")))
BATCHES: list[list[AnyInput]] = [[account()]]
BATCHES += [[enter(3 * n, "B", 95 + n), enter(3 * n + 1, "S", 98 + n), enter(3 * n + 2, "B", 99)] for n in range(1, 6)]
FIRST = "inputs/000000000000001.inputs"


def run(path: Path, batches: list[list[AnyInput]]) -> dict[str, bytes]:
    """Submit batches to an exchange in a directory; what its streams are afterwards."""
    exchange = open_exchange(path, RULES)
    for batch in batches:
        exchange.submit(batch)
    exchange.market._check()
    exchange.close()
    streams = [*path.glob("feed.*"), *path.glob("private/*")]
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(streams)}


def cut_bytes(exchange: Exchange) -> int:
    assert exchange.journal.reader.end is not None
    return exchange.journal.reader.end.torn_bytes


def test_a_journal_torn_at_any_byte_recovers_whole_records(tmp_path: Path) -> None:
    whole = [run(tmp_path / f"{count}", BATCHES[:count]) for count in range(7)]
    ends = [(tmp_path / f"{count}" / FIRST).stat().st_size for count in range(7)]
    data = (tmp_path / "6" / FIRST).read_bytes()
    for size in range(ends[4], ends[6] + 1):
        torn = tmp_path / "torn"
        (torn / "inputs").mkdir(parents=True, exist_ok=True)
        (torn / FIRST).write_bytes(data[:size])
        forget_boot(torn)
        survived = 6 if size == ends[6] else 5 if size >= ends[5] else 4
        assert run(torn, []) == whole[survived], f"torn at byte {size}"
        assert (torn / FIRST).stat().st_size == ends[survived]
        assert run(torn, BATCHES[survived:]) == whole[6], f"continued after a tear at byte {size}"


def test_a_journal_that_grows_while_it_is_read_is_not_damaged(tmp_path: Path) -> None:
    run(tmp_path, BATCHES[:3])
    read = JournalReader(tmp_path / "inputs").batches()
    found = [next(read)]
    exchange = open_exchange(tmp_path, RULES, fsync="always")
    for batch in BATCHES[3:]:
        exchange.submit(batch)
    exchange.close()
    found += read
    assert [number for number, _ in found] == [1, 2, 5]
    assert [number for number, _ in JournalReader(tmp_path / "inputs").batches()] == [1, 2, 5, 8, 11, 14]


def test_what_was_cut_is_said(tmp_path: Path) -> None:
    run(tmp_path, BATCHES)
    with (tmp_path / FIRST).open("ab") as file:
        file.write(b"\x05\0\0\0half")
    exchange = open_exchange(tmp_path, RULES)
    assert (cut_bytes(exchange), exchange.inputs) == (8, 16)
    exchange.close()


def test_a_last_record_with_any_byte_changed_is_cut(tmp_path: Path) -> None:
    whole = run(tmp_path / "a", BATCHES[:3])
    end = (tmp_path / "a" / FIRST).stat().st_size
    run(tmp_path / "b", BATCHES[:4])
    data = bytearray((tmp_path / "b" / FIRST).read_bytes())
    for position in range(end, len(data), 3):
        data[position] ^= 0x55
        (tmp_path / "a" / FIRST).write_bytes(data)
        forget_boot(tmp_path / "a")
        assert run(tmp_path / "a", []) == whole
        data[position] ^= 0x55


@pytest.mark.parametrize("place", [0, 5, 9, 12, 25])
def test_damage_before_the_sync_is_refused_with_its_place(tmp_path: Path, place: int) -> None:
    run(tmp_path, BATCHES[:2])
    end = (tmp_path / FIRST).stat().st_size
    # Closing syncs, and so the records of the next run know that those before them were on the disk.
    run(tmp_path, BATCHES[2:4])
    run(tmp_path, BATCHES[4:])
    data = bytearray((tmp_path / FIRST).read_bytes())
    data[end + place] ^= 1
    (tmp_path / FIRST).write_bytes(data)
    with pytest.raises(JournalError, match=f"damaged record with whole records after it, at byte {end} of .*{FIRST}"):
        run(tmp_path, [])
    assert (tmp_path / FIRST).read_bytes() == bytes(data)


def test_a_hole_after_the_sync_is_cut_and_the_rest_kept_aside(tmp_path: Path) -> None:
    whole = run(tmp_path, BATCHES[:2])
    end = (tmp_path / FIRST).stat().st_size
    run(tmp_path, BATCHES[2:])
    data = bytearray((tmp_path / FIRST).read_bytes())
    data[end : end + 40] = bytes(40)
    (tmp_path / FIRST).write_bytes(data)
    with pytest.raises(JournalDamagedError, match=f"was a damaged record that was written whole, at byte {end} of"):
        run(tmp_path, [])
    forget_boot(tmp_path)
    assert run(tmp_path, []) == whole
    assert (tmp_path / f"inputs/000000000000001-{end}.torn").read_bytes() == bytes(data[end:])


@pytest.mark.parametrize("lost", [1, 25, 200])
def test_requests_whose_answers_were_published_are_missed(tmp_path: Path, lost: int) -> None:
    """Without a loss of power nothing takes the end of a journal and leaves that of the streams."""
    run(tmp_path, BATCHES)
    data = (tmp_path / FIRST).read_bytes()
    streams = {path: path.read_bytes() for path in [*tmp_path.glob("feed.*"), *tmp_path.glob("private/*")]}
    (tmp_path / FIRST).write_bytes(data[:-lost])
    for _ in range(2):  # the first start must not take away what the second one has to notice
        with pytest.raises(
            JournalDamagedError, match=r"with everything that was published, were fewer: \d+ bytes more in"
        ):
            run(tmp_path, [])
    assert {path: path.read_bytes() for path in streams} == streams
    (tmp_path / FIRST).write_bytes(data)
    run(tmp_path, [])


def test_a_whole_record_in_the_wrong_place_is_damage(tmp_path: Path) -> None:
    run(tmp_path, BATCHES[:2])
    ends = [(tmp_path / FIRST).stat().st_size]
    for batch in BATCHES[2:5]:
        run(tmp_path, [batch])
        ends.append((tmp_path / FIRST).stat().st_size)
    data = (tmp_path / FIRST).read_bytes()
    one, two = data[ends[0] : ends[1]], data[ends[1] : ends[2]]
    assert len(one) == len(two)
    (tmp_path / FIRST).write_bytes(data[: ends[0]] + two + one + data[ends[2] :])
    with pytest.raises(JournalError, match=f"at byte {ends[0]} "):
        run(tmp_path, [])


def test_a_segment_that_is_missing_is_damage(tmp_path: Path) -> None:
    exchange = open_exchange(tmp_path, RULES)
    for batch in BATCHES:
        exchange.submit(batch)
        exchange.snapshot()
    exchange.close()
    for snapshot in (tmp_path / "snapshots").iterdir():
        snapshot.unlink()
    size = (tmp_path / "inputs/000000000000005.inputs").stat().st_size
    (tmp_path / "inputs/000000000000008.inputs").unlink()
    with pytest.raises(JournalError, match=f"at byte {size} of .*/000000000000005.inputs"):
        run(tmp_path, [])


@pytest.mark.parametrize("content", [b"", b"1,2,garbage\n" * 9])
def test_streams_left_behind_or_ahead_by_a_crash_are_remade(tmp_path: Path, content: bytes) -> None:
    whole = run(tmp_path, BATCHES)
    for name in whole:
        (tmp_path / name).write_bytes(content)
    (tmp_path / "private" / "text:99.lines").write_bytes(content)
    forget_boot(tmp_path)
    assert run(tmp_path, []) == whole


def test_a_session_outlives_its_process_but_not_its_directory(tmp_path: Path) -> None:
    Journal(tmp_path / "a", RULES, lambda: "ONE").close()
    again = Journal(tmp_path / "a", RULES, lambda: "TWO")
    other = Journal(tmp_path / "b", RULES, lambda: "TWO")
    assert (again.session, other.session) == ("ONE", "TWO")
    again.close()
    other.close()


def test_a_directory_has_one_exchange_at_a_time(tmp_path: Path) -> None:
    first = open_exchange(tmp_path, RULES)
    with pytest.raises(DirectoryInUseError, match=f"in use by another exchange .process {os.getpid()}"):
        open_exchange(tmp_path, RULES)
    first.close()
    open_exchange(tmp_path, RULES).close()


def test_other_rules_need_another_directory(tmp_path: Path) -> None:
    open_exchange(tmp_path, RULES).close()
    with pytest.raises(ExchangeConfigurationError, match=r"began with \(ACME, GLOBEX\), was ACME"):
        open_exchange(tmp_path, MarketRules(instruments=RULES.instruments[:1]))
    with pytest.raises(ExchangeConfigurationError, match=r"\(ACME, GLOBEX, collar_bps 0\), was .*, collar_bps 50;"):
        open_exchange(tmp_path, MarketRules(instruments=RULES.instruments, collar_bps=50))
    finer = (RULES.instruments[0], Instrument("GLOBEX", "0.001"))
    with pytest.raises(ExchangeConfigurationError, match=r"was ACME, GLOBEX, GLOBEX tick_size 0\.001;"):
        open_exchange(tmp_path, MarketRules(instruments=finer))
    open_exchange(tmp_path, RULES).close()


def test_a_journal_of_the_first_version_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "inputs").write_bytes(b"\x10\0\0\0 the head of version 1")
    with pytest.raises(JournalError, match=f"of version 2, was one of version 1 at {tmp_path}/inputs"):
        open_exchange(tmp_path, RULES)


def test_a_journal_of_a_later_version_is_refused_by_name(tmp_path: Path) -> None:
    open_exchange(tmp_path, RULES).close()
    data = (tmp_path / FIRST).read_bytes()
    at = data.index(b"version") + len(b"version")
    (tmp_path / FIRST).write_bytes(data[:at] + b"\x03" + data[at + 1 :])
    with pytest.raises(JournalError, match=f"of version 2, was 3 at {tmp_path}/{FIRST}"):
        open_exchange(tmp_path, RULES)


def test_a_file_that_is_no_journal_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "inputs").mkdir()
    (tmp_path / FIRST).write_bytes(b"something else entirely")
    with pytest.raises(JournalError, match="expected a journal's head"):
        open_exchange(tmp_path, RULES)
    assert (tmp_path / FIRST).read_bytes() == b"something else entirely"


@pytest.mark.parametrize(("policy", "at_once"), [("always", 1), ("interval", 0), ("never", 0)])
def test_the_fsync_policy_decides_whether_a_batch_waits(tmp_path: Path, policy: str, at_once: int) -> None:
    calls: list[int] = []
    exchange = open_exchange(tmp_path, RULES, fsync=policy, sync=calls.append)
    assert exchange.is_group_commit == (policy == "always")
    exchange.submit(BATCHES[0])
    assert len(calls) == at_once
    exchange.journal.sync()
    exchange.journal.sync()
    assert len(calls) == (0 if policy == "never" else 1)
    exchange.close()


def test_batches_of_any_size_are_read_as_they_were_written(tmp_path: Path) -> None:
    exchange = open_exchange(tmp_path, RULES)
    exchange.submit([account()])
    number = 1
    sizes = [1, 40_000, 1, 3, 1]
    for size in sizes:
        exchange.submit([enter(number + n, "BS"[n % 2], 100) for n in range(size)])
        number += size
    exchange.close()
    found = [(first, len(batch)) for first, batch in JournalReader(tmp_path / "inputs").batches()]
    assert [size for _, size in found] == [1, *sizes]
    assert [first for first, _ in found] == [1, 2, 3, 40_003, 40_004, 40_007]


def test_any_damage_leaves_a_readable_prefix_or_a_refusal(
    tmp_path: Path,
) -> None:
    exchange = open_exchange(tmp_path, RULES)
    for batch in BATCHES:
        exchange.submit(batch)
        exchange.journal.sync()
        if exchange.inputs == 10:
            exchange.snapshot()
    exchange.close()
    written = [item for batch in BATCHES for item in batch]
    paths = sorted((tmp_path / "inputs").iterdir())
    whole = {path: path.read_bytes() for path in paths}
    chance = random.Random(7)
    lengths = set()
    for _ in range(1_000):
        path = chance.choice(paths)
        path.write_bytes(spoiled(chance, whole[path]))
        with suppress(JournalError):
            read = [item for _, batch in JournalReader(tmp_path / "inputs").batches() for item in batch]
            assert read == written[: len(read)]
            lengths.add(len(read))
        path.write_bytes(whole[path])
    assert lengths == {10, 13, 16}, "in the first segment everything was on the disk when the second began"


def spoiled(chance: random.Random, data: bytes) -> bytes:
    """Some bytes changed, cut out, put in, cut off, or put behind."""
    begin = chance.randrange(len(data))
    end = min(begin + chance.choice((1, 1, 2, 8, 100)), len(data))
    noise = chance.choice((bytes(end - begin), chance.randbytes(end - begin)))
    return chance.choice(
        (
            data[:begin] + noise + data[end:],
            data[:begin] + data[end:],
            data[:begin] + noise + data[begin:],
            data[:begin],
            data + noise,
        )
    )
