"""Commands that read an exchange's files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from deltabook.cli import _exchange_files, main
from deltabook.wire.itch import decode_message, frames
from exchange_server.logins import PasswordHash
from exchange_server.matching.inputs import Enter
from tests.generators.journals import open_exchange, random_inputs
from tests.generators.text_floor import Floor


def run(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(main, ["exchange", *arguments], input=given)


def fails_with(result: Result, code: int = 1) -> str:
    """The line of a command that fails."""
    assert (result.exit_code, result.stdout) == (code, "")
    return result.stderr.splitlines()[-1].partition(" (`deltabook ")[0]


@pytest.fixture
def journal(tmp_path: Path) -> tuple[Path, list[str]]:
    """A journal, and the hash of the market after each of its requests."""
    directory = tmp_path / "exchange"
    floor = Floor(directory)
    hashes = [floor.exchange.market.state_hash()]
    for number in range(20):
        floor.submit(Enter(0, 0, 4, 0, "ACME", "BS"[number % 2], 5, 100))
        hashes.append(floor.exchange.market.state_hash())
    floor.close()
    return directory, hashes


def test_the_hash_of_a_journal_is_the_markets_after_any_request(journal: tuple[Path, list[str]]) -> None:
    directory, hashes = journal
    assert run("hash", str(directory)).stdout.startswith(f"{hashes[-1]} after 20 requests")
    for at in (0, 1, 7, 20):
        found = json.loads(run("hash", str(directory), "--at-request", str(at), "--json").stdout)
        assert (found["hash"], found["inputs"]) == (hashes[at], at)
    # Of two orders that trade the first says one message and the second, which executes it, one as well.
    found = json.loads(run("hash", str(directory), "--at-message", "8", "--json").stdout)
    assert (found["hash"], found["inputs"]) == (hashes[8], 8)
    assert fails_with(run("hash", str(directory), "--at-request", "21")).endswith("expected an input up to 20, was 21")
    assert fails_with(run("hash", str(directory), "--at-request", "1", "--at-message", "1"), 2).endswith(
        "expected --at-request or --at-message, was both"
    )


def test_a_journal_is_verified_and_what_is_wrong_with_it_named(journal: tuple[Path, list[str]]) -> None:
    directory, hashes = journal
    good = run("verify", str(directory), "--json")
    assert (good.exit_code, json.loads(good.stdout)["state_hash"]) == (0, hashes[-1])
    assert hashes[-1] in run("verify", str(directory)).stdout
    lines = directory / "feed.lines"
    data = bytearray(lines.read_bytes())
    data[50] ^= 1
    lines.write_bytes(data)
    bad = run("verify", str(directory))
    assert bad.exit_code == 1
    assert f"expected what follows from the inputs in {lines}, was other at byte 50" in bad.stderr


def test_what_is_no_journal_is_one_line(tmp_path: Path) -> None:
    for command in (("verify",), ("hash",)):
        assert "expected a journal at" in fails_with(run(*command, str(tmp_path)))
    assert "expected a journal at" in fails_with(run("export-itch", str(tmp_path), str(tmp_path / "out")))
    assert not (tmp_path / "out").exists()


def test_a_feed_that_was_text_is_written_as_a_file_of_itch(journal: tuple[Path, list[str]], tmp_path: Path) -> None:
    out = tmp_path / "day.itch"
    assert run("export-itch", str(journal[0]), str(out)).exit_code == 0
    kinds = [decode_message(message).type for message in frames(out.read_bytes())]
    assert (kinds.count("F"), kinds.count("E")) == (10, 10)
    found = json.loads(run("export-itch", str(journal[0]), str(out), "--json").stdout)
    assert found == {"file": str(out), "messages": len(kinds), "inputs": 20}


def test_a_feed_is_exported_whole_after_requests_were_removed(tmp_path: Path) -> None:
    rules, inputs = random_inputs(8, 400)
    for name, keep in (("whole", None), ("pruned", 2)):
        exchange = open_exchange(tmp_path / name, rules, keep=keep)
        for at in range(0, len(inputs), 100):
            exchange.submit(inputs[at : at + 100])
            exchange.snapshot()
        exchange.close()
    whole, pruned, feed = tmp_path / "whole.itch", tmp_path / "pruned.itch", tmp_path / "pruned" / "feed.itch"
    found = [
        json.loads(run("export-itch", str(tmp_path / path.stem), str(path), "--json").stdout)
        for path in (whole, pruned)
    ]
    assert whole.read_bytes() == pruned.read_bytes()
    assert [each["messages"] for each in found] == [len(list(frames(whole.read_bytes())))] * 2
    assert [each["inputs"] for each in found] == [400, 400]
    feed.write_bytes(bytes((1,)) + feed.read_bytes()[1:])
    line = fails_with(run("export-itch", str(feed.parent), str(pruned)))
    assert f"expected the bytes that were written to {feed}, was damage" in line


def test_a_file_that_cannot_be_written_is_one_line(journal: tuple[Path, list[str]], tmp_path: Path) -> None:
    line = fails_with(run("export-itch", str(journal[0]), str(tmp_path / "nowhere" / "day.itch")))
    assert line.endswith(f"was {tmp_path / 'nowhere' / 'day.itch'}: No such file or directory")


def test_a_password_is_not_asked_for_where_there_is_no_terminal() -> None:
    assert fails_with(run("passwd", given="secret\nsecret\n"), 2).endswith(
        "expected a terminal to ask for the password at, or --stdin, was neither"
    )


def test_a_password_is_entered_twice_and_its_hash_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_exchange_files, "_has_terminal", lambda: True)
    result = run("passwd", given="secret\nsecret\n")
    assert result.exit_code == 0
    assert "secret" not in result.output
    assert PasswordHash.parse(result.stdout.strip()).verify("secret")
    assert run("passwd", given="secret\nother\n\n\n").exit_code != 0


def test_an_entry_of_the_users_file_is_printed_for_a_name() -> None:
    result = run("passwd", "joe", "--stdin", "--broker", "7", "--protocol", "ouch42", "--json", given="secret\n")
    entry = json.loads(result.stdout)
    assert PasswordHash.parse(entry.pop("password")).verify("secret")
    assert entry == {"name": "JOE", "broker": 7, "protocol": "ouch42"}


@pytest.mark.parametrize(
    ("arguments", "password", "words"),
    [
        (("toolongname",), "secret", "expected a name of 1 to 6 letters and digits, was 'toolongname'"),
        (("joe", "--broker", "1223056"), "secret", "1223056 is not in the range 1<=x<=1223055."),
        ((), "", "expected a password of 1 to 10 printable ASCII characters"),
        ((), "elevenchars", "expected a password of 1 to 10 printable ASCII characters"),
    ],
)
def test_what_no_login_could_carry_is_refused(arguments: tuple[str, ...], password: str, words: str) -> None:
    line = fails_with(run("passwd", *arguments, "--stdin", given=f"{password}\n"), 2 if "--broker" in arguments else 1)
    assert line.endswith(words)
