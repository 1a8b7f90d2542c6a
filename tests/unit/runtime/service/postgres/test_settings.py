"""Settings of a session: defaults, values, transactions, and those that cannot be set."""

from __future__ import annotations

import pytest

from runtime.service.postgres.errors import PostgresError
from runtime.service.postgres.settings import REPORTED, Settings


@pytest.fixture
def settings() -> Settings:
    return Settings("me", "run-1")


def test_a_new_session_has_the_defaults(settings: Settings) -> None:
    assert settings.show("session_authorization") == "me"
    assert settings.show("deltabook.run") == "run-1"
    assert settings.show("server_version").startswith("15.0 (Deltabook ")
    assert list(settings.all()) == sorted(settings.all())
    assert set(REPORTED) <= set(settings.all())


def test_a_value_is_set_and_reset(settings: Settings) -> None:
    assert settings.set("application_name", "x") == ("application_name", "x")
    assert settings.set("work_mem", "1GB") is None
    assert settings.show("work_mem") == "1GB"
    assert settings.reset("work_mem") is None
    assert settings.show("work_mem") == "4MB"
    assert settings.reset_all() == [("application_name", "")]
    assert settings.set("client_encoding", "utf-8") == ("client_encoding", "UTF8")


def test_values_of_the_start_are_the_defaults(settings: Settings) -> None:
    settings.start({"Application_Name": "'x'", "nothing": "y"})
    settings.set("application_name", "z")
    settings.reset("application_name")
    assert settings.show("application_name") == "x"
    with pytest.raises(PostgresError, match="UTF8"):
        settings.start({"client_encoding": "latin1"})


def test_a_rolled_back_transaction_restores_its_settings(settings: Settings) -> None:
    settings.begin()
    settings.set("application_name", "x")
    assert settings.end(commits=False) == {"application_name": ""}
    settings.begin()
    settings.set("application_name", "x")
    assert settings.end(commits=True) == {}
    assert settings.show("application_name") == "x"


def test_local_values_end_with_the_transaction(settings: Settings) -> None:
    assert settings.set("work_mem", "1GB", is_local=True) is None
    assert settings.show("work_mem") == "4MB"
    settings.begin()
    settings.set("work_mem", "1GB", is_local=True)
    settings.set("a.b", "1", is_local=True)
    settings.set("jit", "on", is_local=True)
    settings.set("jit", "on")
    settings.end(commits=True)
    assert settings.show("work_mem") == "4MB"
    assert settings.show("jit") == "on"
    with pytest.raises(PostgresError, match=r"a\.b"):
        settings.show("a.b")


@pytest.mark.parametrize(
    ("name", "value", "sqlstate"),
    [
        ("nothing", "1", "42704"),
        ("server_version", "1", "55P02"),
        ("client_encoding", "latin1", "22023"),
        ("default_transaction_read_only", "off", "22023"),
        ("datestyle", "German", "22023"),
        ("timezone", "Mars/Olympus", "22023"),
        ("statement_timeout", "soon", "22023"),
        ("statement_timeout", "-1", "22023"),
        ("statement_timeout", "3 weeks", "22023"),
        ("application_name", "x" * 1001, "22023"),
    ],
)
def test_a_value_that_cannot_be_is_refused(settings: Settings, name: str, value: str, sqlstate: str) -> None:
    before = settings.all()
    with pytest.raises(PostgresError, match="expected") as raised:
        settings.set(name, value)
    assert raised.value.sqlstate == sqlstate
    assert settings.all() == before


@pytest.mark.parametrize(
    ("value", "seconds"), [("0", None), ("1500", 1.5), ("2s", 2.0), ("1 min", 60.0), ("500us", 0.0005), ("1h", 3600.0)]
)
def test_a_timeout_is_read_with_its_unit(settings: Settings, value: str, seconds: float | None) -> None:
    settings.set("statement_timeout", value)
    assert settings.statement_seconds == seconds


def test_own_settings_are_bounded(settings: Settings) -> None:
    for number in range(100):
        settings.set(f"a.b{number}", "1")
    with pytest.raises(PostgresError, match=r"at most 100 .*a\.more") as raised:
        settings.set("a.more", "1")
    assert raised.value.sqlstate == "54000"
    settings.set("a.b0", "2")
    assert settings.show("a.b0") == "2", "a setting that exists can be changed at the limit"
    settings.reset("a.b0")
    settings.set("a.more", "1")


def test_a_refused_value_leaves_the_local_one_local(settings: Settings) -> None:
    """A savepoint lets a transaction continue after the error."""
    settings.begin()
    settings.set("statement_timeout", "5s", is_local=True)
    with pytest.raises(PostgresError, match="expected a duration"):
        settings.set("statement_timeout", "soon")
    settings.end(commits=True)
    assert settings.show("statement_timeout") == "0"
