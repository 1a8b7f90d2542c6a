"""Settings of a session for SET, SHOW and RESET; changes of some settings are reported to the client."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Final
from zoneinfo import available_timezones

import msgspec

from runtime.service.postgres.errors import PostgresError

__all__ = ["REPORTED", "SERVER_VERSION", "Settings", "SettingsState"]

SERVER_VERSION: Final = "15.0"
"""Version of PostgreSQL that clients are shown."""
_LONGEST_VALUE: Final = 1_000
"""Greatest length of a value in characters."""
_MOST_OWN: Final = 100
"""Greatest number of settings that a client may create; the name of such a setting has a dot."""

REPORTED: Final = {
    "server_version": "server_version",
    "server_encoding": "server_encoding",
    "client_encoding": "client_encoding",
    "application_name": "application_name",
    "default_transaction_read_only": "default_transaction_read_only",
    "in_hot_standby": "in_hot_standby",
    "is_superuser": "is_superuser",
    "session_authorization": "session_authorization",
    "datestyle": "DateStyle",
    "intervalstyle": "IntervalStyle",
    "timezone": "TimeZone",
    "integer_datetimes": "integer_datetimes",
    "standard_conforming_strings": "standard_conforming_strings",
}
"""Settings whose changes are reported to the client → their reported names."""
_FIXED: Final = {
    "server_version": f"{SERVER_VERSION} (Deltabook {version('deltabook')})",
    "server_version_num": "150000",
    "server_encoding": "UTF8",
    "in_hot_standby": "off",
    "is_superuser": "off",
    "integer_datetimes": "on",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "block_size": "8192",
    "transaction_deferrable": "off",
    "lc_collate": "C.UTF-8",
    "lc_ctype": "C.UTF-8",
    "data_checksums": "off",
    "deltabook.epoch": "",
    "deltabook.run": "",
}
"""Settings that cannot be changed."""
_CHOICES: Final = {
    "client_encoding": {"utf8": "UTF8", "utf-8": "UTF8", "unicode": "UTF8", "sql_ascii": "UTF8"},
    "standard_conforming_strings": {"on": "on", "true": "on", "1": "on"},
    "transaction_read_only": {"on": "on", "true": "on", "1": "on"},
    "default_transaction_read_only": {"on": "on", "true": "on", "1": "on"},
    "intervalstyle": {"postgres": "postgres"},
    "bytea_output": {"hex": "hex"},
}
"""Setting with a single value here → the spellings of that value."""
_DEFAULTS: Final = {
    "application_name": "",
    "backslash_quote": "safe_encoding",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "client_min_messages": "notice",
    "check_function_bodies": "on",
    "constraint_exclusion": "partition",
    "datestyle": "ISO, MDY",
    "default_table_access_method": "heap",
    "default_tablespace": "",
    "default_transaction_deferrable": "off",
    "default_transaction_isolation": "repeatable read",
    "default_transaction_read_only": "on",
    "enable_seqscan": "on",
    "enable_indexscan": "on",
    "escape_string_warning": "on",
    "extra_float_digits": "1",
    "geqo": "on",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "intervalstyle": "postgres",
    "jit": "off",
    "lc_messages": "C.UTF-8",
    "lc_monetary": "C.UTF-8",
    "lc_numeric": "C.UTF-8",
    "lc_time": "C.UTF-8",
    "lock_timeout": "0",
    "password_encryption": "scram-sha-256",
    "plan_cache_mode": "auto",
    "quote_all_identifiers": "off",
    "role": "none",
    "row_security": "on",
    "search_path": '"$user", public',
    "session_authorization": "",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "synchronize_seqscans": "on",
    "synchronous_commit": "on",
    "temp_tablespaces": "",
    "timezone": "UTC",
    "transaction_isolation": "repeatable read",
    "transaction_read_only": "on",
    "work_mem": "4MB",
    "xmloption": "content",
}
"""Settings that a client may change → their values at the start."""
_UNITS_MS: Final = {"us": 0.001, "ms": 1.0, "s": 1000.0, "min": 60_000.0, "h": 3_600_000.0, "d": 86_400_000.0}


class SettingsState(msgspec.Struct, frozen=True):
    """Values of a session's settings at a savepoint."""

    values: dict[str, str]
    """Value of each setting."""
    local: dict[str, str | None]
    """Settings that SET LOCAL has changed → the values that they have after the block; None for no value."""


class Settings:
    """Settings of one session; changes made in a transaction are reverted if the transaction is rolled back."""

    def __init__(self, user: str, run: str = "") -> None:
        """Set the defaults; ``run`` is the identity of the run, see ``SHOW deltabook.run``."""
        self._defaults = {**_DEFAULTS, "session_authorization": user}
        self._values = dict(self._defaults)
        self._before: dict[str, str] | None = None
        self._local: dict[str, str | None] = {}
        self.epoch = ""
        """Epoch of the last answer, the value of SHOW deltabook.epoch."""
        self.run = run

    def begin(self) -> None:
        """Begin a transaction block; has no effect inside of one."""
        if self._before is None:
            self._before, self._local = dict(self._values), {}

    def state(self) -> SettingsState:
        """Return the present values, for a savepoint."""
        return SettingsState(dict(self._values), dict(self._local))

    def restore(self, state: SettingsState) -> dict[str, str]:
        """Restore the values of a savepoint; return the reported settings whose values change."""
        was, self._values, self._local = self._values, dict(state.values), dict(state.local)
        return self._changed(was)

    def end(self, *, commits: bool) -> dict[str, str]:
        """End the transaction block; return the reported settings whose values change at its end."""
        before, self._before = self._before, None
        was = dict(self._values)
        if before is not None and not commits:
            self._values = before
        for name, value in self._local.items() if commits else ():
            if value is None:
                self._values.pop(name, None)
            else:
                self._values[name] = value
        self._local = {}
        return self._changed(was)

    def _changed(self, was: Mapping[str, str]) -> dict[str, str]:
        return {REPORTED[name]: self._values[name] for name in REPORTED if self._values.get(name) != was.get(name)}

    def start(self, values: Mapping[str, str]) -> None:
        """Set the values of a startup message as defaults; unknown settings are ignored.

        Raises `PostgresError` for an invalid value.
        """
        for name, value in values.items():
            try:
                self._defaults[name.lower()] = self._checked(name.lower(), value.strip("'"))
            except PostgresError as error:
                if error.sqlstate != "42704":
                    raise
        self._values = dict(self._defaults)

    def set(self, name: str, value: str | None, *, is_local: bool = False) -> tuple[str, str] | None:
        """Change a setting; return its name and value if they are to be reported, else None.

        The value None stands for the default. Outside of a transaction block a local value has no effect and is not
        checked. Raises `PostgresError` for an unknown name or an invalid value.
        """
        if is_local and self._before is None:
            return None
        checked = None if value is None else self._checked(name, value)  # before anything is changed
        if is_local and name not in self._local:
            self._local[name] = self._values.get(name)
        elif not is_local:
            self._local.pop(name, None)
        if checked is None:
            return self.reset(name)
        self._values[name] = checked
        return (REPORTED[name], self._values[name]) if name in REPORTED else None

    def reset(self, name: str) -> tuple[str, str] | None:
        """Restore the default of a setting; return its name and value if they are to be reported, else None."""
        self.show(name)
        if name not in _FIXED:
            if name not in self._defaults:
                self._values.pop(name, None)
                return None
            self._values[name] = self._defaults[name]
        return (REPORTED[name], self.show(name)) if name in REPORTED else None

    def reset_all(self) -> list[tuple[str, str]]:
        """Restore all defaults; return the changed settings to be reported."""
        was, self._values = self._values, dict(self._defaults)
        return [(REPORTED[name], self.show(name)) for name in REPORTED if was.get(name) != self._values.get(name)]

    def show(self, name: str) -> str:
        """Return the value of a setting; raises `PostgresError` for an unknown one."""
        if name in ("deltabook.epoch", "deltabook.run"):
            return self.epoch if name == "deltabook.epoch" else self.run
        value = _FIXED.get(name, self._values.get(name))
        if value is None:
            raise _unknown(name)
        return value

    def all(self) -> dict[str, str]:
        """Return all settings, by name."""
        own = {"deltabook.epoch": self.epoch, "deltabook.run": self.run}
        return dict(sorted({**self._values, **_FIXED, **own}.items()))

    @property
    def statement_seconds(self) -> float | None:
        """Timeout of a statement in seconds; None for the setting 0, so that only the timeout of questions applies."""
        value = self._values["statement_timeout"]
        return _milliseconds(value) / 1000 or None

    def _checked(self, name: str, value: str) -> str:
        if len(value) > _LONGEST_VALUE:
            raise PostgresError("22023", f"expected at most {_LONGEST_VALUE} characters for {name}, was {len(value)}")
        if name in _FIXED:
            raise PostgresError("55P02", f"expected a setting that can be changed, was {name}")
        if name not in self._defaults:
            if "." not in name:
                raise _unknown(name)
            if name not in self._values and sum("." in each for each in self._values) >= _MOST_OWN:
                raise PostgresError(
                    "54000", f"expected at most {_MOST_OWN} settings of a client's own, was one more: {name[:80]!r}"
                )
            return value
        if name in _CHOICES:
            choice = _CHOICES[name].get(value.strip().lower())
            if choice is None:
                raise PostgresError(
                    "22023", f"expected {next(iter(_CHOICES[name].values()))} for {name}, was {value!r}"
                )
            return choice
        if name == "datestyle":
            if not value.upper().replace(" ", "").startswith(("ISO", "MDY", "YMD", "DMY")):
                raise PostgresError("22023", f"expected ISO for {name}, was {value!r}")
            return "ISO, MDY"
        if name == "timezone":
            return _zone(value)
        if name == "statement_timeout":
            _milliseconds(value)
        return value


def _unknown(name: str) -> PostgresError:
    return PostgresError("42704", f"expected a setting that is known, was {name[:80]!r}")


def _zone(value: str) -> str:
    """Return UTC for the name of any time zone, because times are always sent in UTC, with their offset.

    Raises `PostgresError` for a name that is not a time zone.
    """
    known = value.strip()
    if known.upper() not in ("UTC", "GMT", "Z", "0", "+00", "ETC/UTC") and known not in available_timezones():
        raise PostgresError("22023", f"expected a time zone, was {value[:80]!r}")
    return "UTC"


def _milliseconds(value: str) -> float:
    """Return the milliseconds of a duration: a number, in milliseconds or with a unit.

    Raises `PostgresError` for text of another form.
    """
    text = value.strip().lower()
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(digits) :].strip() or "ms"
    try:
        duration_ms = float(digits) * _UNITS_MS[unit]
    except (KeyError, ValueError):
        duration_ms = -1.0
    if not 0 <= duration_ms < 2**31:
        raise PostgresError("22023", f"expected a duration such as 500, 2s or 1min, was {value[:80]!r}")
    return duration_ms
