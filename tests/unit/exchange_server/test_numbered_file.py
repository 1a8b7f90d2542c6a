"""A numbered file finds any record again, and goes on from any position that it had."""

from __future__ import annotations

from pathlib import Path

import pytest

from exchange_server.errors import DamagedStreamError, JournalError
from exchange_server.journal import LineFile, NumberedFile, PacketFile, Position
from exchange_server.journal.numbered_file import BLOCK_BYTES, damage_before
from exchange_server.journal.streams import Streams


def fill(records: NumberedFile, bursts: int) -> None:
    """Bursts of different sizes; each record holds its number."""
    for burst in range(bursts):
        count = burst % 7 + 90
        numbers = range(records.next_number, records.next_number + count)
        if isinstance(records, LineFile):
            records.append(b"".join(b"%d\n" % number for number in numbers), count)
        else:
            bodies = [b"%d" % number for number in numbers]
            records.append(b"".join(len(body).to_bytes(2, "big") + body for body in bodies), count)


def first_at(records: NumberedFile, offset: int) -> int:
    """The number in the record at an offset."""
    data = records.read(offset, 20)
    if isinstance(records, LineFile):
        return int(data.split(b"\n")[0])
    return int(data[2 : 2 + int.from_bytes(data[:2], "big")])


@pytest.mark.parametrize("kind", [LineFile, PacketFile])
def test_any_record_is_found_again_however_small_the_index(tmp_path: Path, kind: type[NumberedFile]) -> None:
    records = kind(tmp_path / "records", index_limit=4)
    fill(records, 200)
    for number in [*range(1, records.next_number, 97), records.next_number - 1]:
        assert first_at(records, records.offset_of(number)) == number
    assert records.offset_of(records.next_number) == records.size_bytes
    assert len(records.position().numbers) <= 4
    with pytest.raises(ValueError, match="from 1 to"):
        records.offset_of(records.next_number + 1)


@pytest.mark.parametrize("kind", [LineFile, PacketFile])
def test_it_resumes_at_a_position_and_drops_what_followed(tmp_path: Path, kind: type[NumberedFile]) -> None:
    records = kind(tmp_path / "records")
    fill(records, 50)
    position, data = records.position(), (tmp_path / "records").read_bytes()
    fill(records, 50)
    records.close()
    again = kind(tmp_path / "records", position)
    assert (tmp_path / "records").read_bytes() == data
    assert again.position() == position
    fill(again, 50)
    assert again.next_number == records.next_number
    assert [first_at(again, again.offset_of(n)) for n in range(1, again.next_number, 501)] == [
        *range(1, again.next_number, 501)
    ]


def test_a_file_that_has_less_than_its_position_is_refused(tmp_path: Path) -> None:
    (tmp_path / "records").write_bytes(b"1\n")
    with pytest.raises(JournalError, match=r"expected 5 bytes or more in .*records, were 2"):
        LineFile(tmp_path / "records", Position(3, 5))


def test_a_released_file_goes_on_where_it_was(tmp_path: Path) -> None:
    lines = LineFile(tmp_path / "lines")
    lines.append(b"1\n", 1)
    lines.release()
    lines.append(b"2\n", 1)
    assert lines.read(0, 100) == b"1\n2\n"
    lines.close()


def test_more_streams_than_descriptors_lose_nothing(tmp_path: Path) -> None:
    streams = Streams(tmp_path, most_open=4)
    streams.begin({})
    names = [f"private/text:{number}.lines" for number in range(20)]
    for turn in range(3):
        for name in names:
            streams.get(name).append(b"%d\n" % turn, 1)
    assert sum(streams.get(name).records._fd >= 0 for name in names) <= 4
    assert all(streams.get(name).records.read(0, 100) == b"0\n1\n2\n" for name in names)
    streams.close()


def test_a_piece_may_end_inside_a_packet_and_its_rest_is_known(tmp_path: Path) -> None:
    packets = PacketFile(tmp_path / "packets", index_limit=4)
    fill(packets, 30)
    ends = {packets.offset_of(number) for number in range(1, packets.next_number + 1)}
    whole = (tmp_path / "packets").read_bytes()
    for offset in [*range(400), *range(9_990, 10_100), *range(packets.size_bytes - 50, packets.size_bytes + 1)]:
        end = min(end for end in ends if end >= offset)
        assert packets.piece(offset, 7) == whole[offset : offset + 7]
        assert packets.rest_of_record(offset) == whole[offset:end]


def test_lines_are_passed_on_whole(tmp_path: Path) -> None:
    lines = LineFile(tmp_path / "lines")
    fill(lines, 1)
    assert lines.piece(0, 11) == b"1\n2\n3\n4\n5\n"
    assert lines.rest_of_record(4) == b""


@pytest.mark.parametrize("kind", [LineFile, PacketFile])
def test_damage_is_neither_read_nor_found_whole(tmp_path: Path, kind: type[NumberedFile]) -> None:
    path = tmp_path / "records"
    records = kind(path)
    fill(records, 500)
    position, whole = records.position(), path.read_bytes()
    assert len(whole) > 3 * BLOCK_BYTES
    assert damage_before(position, path) == ""
    for place in (0, BLOCK_BYTES - 1, BLOCK_BYTES, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        begin = place - place % BLOCK_BYTES
        words = f"to {path}, was damage between bytes {begin} and {min(begin + BLOCK_BYTES, len(whole))}"
        assert words in damage_before(position, path)
        for read in (records.read, records.piece):
            with pytest.raises(DamagedStreamError, match=words):
                read(max(0, place - 100), 200)
    path.write_bytes(whole[:-1])
    assert f"expected {len(whole)} bytes or more" in damage_before(position, path)
    with pytest.raises(DamagedStreamError, match="restart the exchange"):
        records.read(len(whole) - 100, 100)
    path.write_bytes(whole)
    assert records.read(0, len(whole)) == whole


def test_checksums_do_not_depend_on_how_bytes_came(tmp_path: Path) -> None:
    one, many = LineFile(tmp_path / "one"), LineFile(tmp_path / "many")
    data = b"".join(b"%d,\n" % number for number in range(1, 60_001))
    one.append(data, 60_000)
    for at in range(0, len(data), 7_001):
        many.append(data[at : at + 7_001], 1)
    assert len(data) > 4 * BLOCK_BYTES
    ours, theirs = one.position(), many.position()
    assert (ours.checksums, ours.rest_checksum) == (theirs.checksums, theirs.rest_checksum)


def test_a_file_of_an_earlier_release_gets_checksums(tmp_path: Path) -> None:
    """Its position has none: what is there is taken as it is, once."""
    records = LineFile(tmp_path / "records")
    fill(records, 300)
    position = records.position()
    records.close()
    old = Position(*(getattr(position, name) for name in Position.__struct_fields__[:5]))
    assert old.rest_checksum is None
    assert damage_before(old, tmp_path / "records") == ""
    assert LineFile(tmp_path / "records", old).position() == position


@pytest.mark.parametrize(
    ("kind", "more", "is_surplus"),
    [
        (LineFile, b"3,x\n", True),
        (LineFile, b"4,x\n", False),
        (PacketFile, b"\0\2Sx", True),
        (PacketFile, b"xxxx", False),
    ],
)
def test_records_behind_a_position_are_told_from_other_bytes(
    tmp_path: Path, kind: type[NumberedFile], more: bytes, is_surplus: bool
) -> None:
    path = tmp_path / "records"
    records = kind(path)
    records.append(b"1,x\n" if kind is LineFile else b"\0\2Sx", 1)
    position = records.position()
    records.close()
    second = b"2,x\n" if kind is LineFile else b"\0\2Sy"
    path.write_bytes(path.read_bytes() + second + more)
    again = kind(path, position, is_cut=False)
    assert path.stat().st_size == 12
    again.append(second, 1)
    assert again.surplus_bytes == (4 if is_surplus else 0)
    again.cut()
    assert (path.stat().st_size, again.surplus_bytes) == (8, 0)
