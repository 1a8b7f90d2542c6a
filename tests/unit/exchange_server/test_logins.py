"""Users, passwords, and who is let in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher

from exchange_server.errors import ExchangeConfigurationError
from exchange_server.logins import (
    GateLimits,
    LoginGate,
    PasswordHash,
    User,
    UsersWatch,
    check_name,
    hash_password,
    load_users,
)
from exchange_server.matching.order import AccountLimits

HASH = hash_password("secret")


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    file = path / "users.toml"
    file.write_text(text)
    file.chmod(mode)
    return file


def entry(name: str = "ALPHA", more: str = "", secret: str = HASH) -> str:
    return f'[[user]]\nname = "{name}"\npassword = "{secret}"\nbroker = 7\n{more}\n'


# -- passwords -------------------------------------------------------------------------------------------------------


def test_a_hash_is_salted_and_ignores_case() -> None:
    secret = PasswordHash.parse(HASH)
    assert secret.verify("secret")
    assert secret.verify("SECRET")
    assert not secret.verify("secreT2")
    assert not secret.verify("")
    assert hash_password("secret") != HASH
    assert "secret" not in HASH.lower()
    assert HASH.split("$")[4] not in repr(secret)


def test_a_hash_of_nobody_is_no_passwords() -> None:
    assert not PasswordHash.of_nobody().verify("")


@pytest.mark.parametrize("password", ["", "12345678901", "ünter", "a\tb", " x", "x "])
def test_passwords_that_no_login_carries_are_refused(password: str) -> None:
    with pytest.raises(ValueError, match="expected a password"):
        hash_password(password)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "secret",
        "scrypt$14$8$1$AAAA",
        HASH.replace("scrypt", "plain"),
        HASH.replace("$14$", "$0$"),
        HASH.replace("$14$", "$23$"),
        HASH.replace("$14$", "$99999999$"),
        HASH.replace("$8$1$", "$-8$1$"),
        HASH.replace("$8$1$", "$8$0$"),
        HASH.replace("$8$1$", "$8$x$"),
        HASH[:-4],
        HASH + "!",
        HASH + "$AAAA",
    ],
    # Names of their own: the salt is another one in each process of the tests.
    ids=[
        "nothing",
        "a password",
        "half",
        "a scheme",
        "no cost",
        "a great cost",
        "a huge cost",
        "a block",
        "no threads",
        "letters",
        "short",
        "a sign",
        "a tail",
    ],
)
def test_what_is_no_hash_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ValueError, match="expected") as caught:
        PasswordHash.parse(text)
    assert not text or text not in str(caught.value)


# -- the users file --------------------------------------------------------------------------------------------------


def test_a_users_file_says_everything_of_its_users(tmp_path: Path) -> None:
    more = 'protocol = "ouch42"\nself_trade = "newest"\ncancel_on_disconnect = true\n'
    limits = "[user.limits]\nrequests_per_s = 5\nopen_orders = 6\norder_notional = 7\nopen_notional = 8\n"
    users = load_users(write(tmp_path, entry() + entry("bob2", more + limits)))
    assert list(users) == ["ALPHA", "BOB2"]
    alpha, bob = users.values()
    assert (alpha.broker_id, alpha.protocol, alpha.self_trade, alpha.cancel_on_disconnect) == (
        7,
        "ouch5",
        "allow",
        False,
    )
    assert alpha.limits == AccountLimits()
    assert alpha.account == "ouch:ALPHA"
    assert (bob.protocol, bob.self_trade, bob.cancel_on_disconnect) == ("ouch42", "newest", True)
    assert bob.limits == AccountLimits(requests_per_s=5, open_orders=6, order_notional=7, open_notional=8)
    assert bob.secret.verify("secret")
    assert HASH.split("$")[5] not in repr(users)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("user = 3", "Expected `array`"),
        ("nonsense", "expected users in"),
        ("[other]\n", "unknown field `other`"),
        (entry(more="colour = 3"), "unknown field `colour`"),
        (entry(more='protocol = "fix"'), "Invalid enum value 'fix'"),
        (entry(more="[user.limits]\nspeed = 3"), "unknown field `speed`"),
        (entry(more="[user.limits]\nopen_orders = -3"), r"Expected `int` >= 0 - at `\$.user\[0\].limits.open_orders`"),
        (entry(more=f"[user.limits]\nopen_notional = {10**30}"), r"at `\$.user\[0\].limits.open_notional`"),
        (entry("TOOLONG"), "name of 1 to 6 letters and digits, was 'TOOLONG', in user 1"),
        (entry("A B"), "letters and digits"),
        (entry() + entry("alpha"), r"each name once, in user 2 \('alpha'\)"),
        (entry(secret="plain"), r"of the form .*, in user 1 \('ALPHA'\)"),
        (entry().replace("broker = 7", "broker = 0"), "broker of 1 to"),
        (entry().replace("broker = 7", ""), "missing required field `broker`"),
    ],
)
def test_a_users_file_is_read_strictly(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ExchangeConfigurationError, match=words):
        load_users(write(tmp_path, text))


def test_a_users_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ExchangeConfigurationError, match=r"expected to read the users file .*nowhere"):
        load_users(tmp_path / "nowhere")


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o400, False), (0o640, True), (0o604, True)])
def test_a_users_file_that_others_may_read_is_warned_of(tmp_path: Path, mode: int, warned: bool) -> None:
    events: list[Any] = []
    globalLogPublisher.addObserver(events.append)  # type: ignore[arg-type]
    load_users(write(tmp_path, entry(), mode))
    globalLogPublisher.removeObserver(events.append)  # type: ignore[arg-type]
    assert any("read by others than its owner" in (event.get("log_format") or "") for event in events) == warned


def test_names_are_of_letters_and_digits() -> None:
    assert check_name("a1") == "A1"
    for name in ("", "1234567", "Ä", "a-b"):
        with pytest.raises(ValueError, match="expected a name"):
            check_name(name)


# -- the gate --------------------------------------------------------------------------------------------------------


class Door:
    """A gate whose comparisons are done at once, or when the test says so."""

    def __init__(self, path: Path, **limits: Any) -> None:
        self.clock = Clock()
        self.later: list[tuple[Callable[[], bool], Deferred[bool]]] = []
        self.at_once = True
        self.compared = 0
        self.answers: list[tuple[str, str]] = []
        self.gate = LoginGate(
            load_users(write(path, entry() + entry("BRAVO"))), self.clock, GateLimits(**limits), self._run
        )

    def _run(self, compare: Callable[[], bool]) -> Deferred[bool]:
        self.compared += 1
        if self.at_once:
            return succeed(compare())
        self.later.append((compare, Deferred()))
        return self.later[-1][1]

    def finish(self) -> None:
        later, self.later = self.later, []
        for compare, deferred in later:
            deferred.callback(compare())

    def knock(self, name: str, password: str, host: str = "127.0.0.1") -> tuple[str, str]:
        self.answers.append(("", "pending"))
        at = len(self.answers) - 1

        def then(user: User | None, reason: str) -> None:
            self.answers[at] = (user.name if user else "", reason)

        self.gate.check(name, password, host, then)
        return self.answers[at]


def test_a_user_with_its_password_is_let_in(tmp_path: Path) -> None:
    door = Door(tmp_path)
    assert door.knock("alpha", "SECRET") == ("ALPHA", "")


def test_wrong_names_and_passwords_get_the_same_answer(tmp_path: Path) -> None:
    door = Door(tmp_path)
    assert door.knock("ALPHA", "wrong") == door.knock("NOBODY", "secret") == ("", "expected a user and its password")
    assert door.compared == 2


def test_only_the_right_password_is_remembered(tmp_path: Path) -> None:
    door = Door(tmp_path)
    door.knock("ALPHA", "secret")
    assert door.knock("ALPHA", "secret") == ("ALPHA", "")
    assert door.compared == 1
    assert door.knock("ALPHA", "other")[0] == ""
    assert door.knock("BRAVO", "secret") == ("BRAVO", "")
    assert door.compared == 3


def test_guessing_ends_for_a_while_for_that_name_from_that_host(tmp_path: Path) -> None:
    door = Door(tmp_path, failures=3, window_s=10)
    for _ in range(3):
        door.knock("ALPHA", "wrong")
    assert door.knock("ALPHA", "secret") == ("", "too many wrong passwords; try again later")
    assert door.compared == 3
    assert door.knock("ALPHA", "secret", "10.0.0.1")[0] == "ALPHA"
    assert door.knock("BRAVO", "secret")[0] == "BRAVO"
    door.clock.advance(10)
    assert door.knock("ALPHA", "secret")[0] == "ALPHA"


def test_a_guess_against_a_remembered_password_counts_too(tmp_path: Path) -> None:
    door = Door(tmp_path, failures=2)
    door.knock("ALPHA", "secret")
    for _ in range(2):
        door.knock("ALPHA", "wrong")
    assert "too many" in door.knock("ALPHA", "secret")[1]


def test_no_more_passwords_are_compared_at_once_than_may_be(tmp_path: Path) -> None:
    door = Door(tmp_path, pending=2)
    door.at_once = False
    assert door.knock("ALPHA", "secret")[1] == door.knock("BRAVO", "secret")[1] == "pending"
    assert door.knock("ALPHA", "secret") == ("", "too many logins at once; try again later")
    door.finish()
    assert [name for name, _ in door.answers] == ["ALPHA", "BRAVO", ""]
    assert door.knock("ALPHA", "secret")[0] == "ALPHA"


def test_failures_of_no_more_names_are_remembered_than_may_be(tmp_path: Path) -> None:
    door = Door(tmp_path, failures=1, remembered=2)
    for name in ("A", "B", "C"):
        door.knock(name, "x")
    assert "expected" in door.knock("A", "x")[1]
    assert "too many" in door.knock("C", "x")[1]


@pytest.mark.parametrize("mode", [0o602, 0o666])
def test_a_users_file_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(ExchangeConfigurationError, match=r"writable by its owner alone \(chmod go-w\), was mode 06"):
        load_users(write(tmp_path, entry(), mode))


# -- changes of the file ---------------------------------------------------------------------------------------------


class Watched:
    """A users file that is watched, and what was said of its changes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, Clock()  # type: ignore[no-untyped-call, unused-ignore]
        self.path = write(folder, entry() + entry("BRAVO"))
        self.watch = UsersWatch(self.path, self.clock)
        self.gone: list[set[str]] = []
        self.watch.start(lambda gone: self.gone.append(set(gone)))

    def becomes(self, text: str) -> list[set[str]]:
        """Write the file anew, as editors do, and wait until it was looked at."""
        self.gone.clear()
        new = self.folder / "new"
        new.write_text(text)
        new.chmod(0o600)
        new.rename(self.path)
        self.clock.advance(1)
        return self.gone

    @property
    def names(self) -> set[str]:
        return set(self.watch.gate.users)


def test_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.clock.advance(1)
    assert watched.gone == []
    assert watched.becomes(entry() + entry("BRAVO") + entry("CARLO")) == [set()]
    assert watched.names == {"ALPHA", "BRAVO", "CARLO"}


def test_only_who_is_removed_or_has_another_password_must_go(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    assert watched.becomes(entry("BRAVO", secret=hash_password("other")) + entry("CARLO")) == [{"ALPHA", "BRAVO"}]
    assert watched.becomes(entry("BRAVO", secret=hash_password("other"), more='protocol = "ouch42"')) == [
        {"BRAVO", "CARLO"}
    ]


@pytest.mark.parametrize("text", ["[[user]", entry() + entry(), entry("TOOLONG")])
def test_a_file_with_an_error_changes_nothing(tmp_path: Path, text: str) -> None:
    watched = Watched(tmp_path)
    assert watched.becomes(text) == []
    assert watched.names == {"ALPHA", "BRAVO"}
    watched.path.unlink()
    watched.clock.advance(1)
    assert watched.names == {"ALPHA", "BRAVO"}
    assert watched.becomes(entry()) == [{"BRAVO"}]


def test_a_password_of_before_is_not_right_any_more(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    gate = LoginGate(watched.watch.gate.users, watched.clock, in_thread=lambda compare: succeed(compare()))
    said: list[object] = []
    gate.check("ALPHA", "secret", "h", lambda user, reason: said.append(reason))
    gate.replace(load_users(write(tmp_path, entry(secret=hash_password("other")))))
    gate.check("ALPHA", "secret", "h", lambda user, reason: said.append(reason))
    gate.check("ALPHA", "other", "h", lambda user, reason: said.append(reason))
    assert said == ["", "expected a user and its password", ""]


def test_a_comparison_begun_before_the_change_admits_nobody(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    waiting: Deferred[bool] = Deferred()
    gate = LoginGate(watched.watch.gate.users, watched.clock, in_thread=lambda compare: waiting)
    said: list[object] = []
    gate.check("ALPHA", "secret", "h", lambda user, reason: said.append(user))
    gate.replace(load_users(write(tmp_path, entry("BRAVO"))))
    waiting.callback(True)
    assert said == [None]
