"""Peers: where the processes are that the dashboard follows, given or to be read in a file."""

from __future__ import annotations

from pathlib import Path

import msgspec

from deltabook.dashboard.errors import DashboardError

__all__ = ["Peer"]

_MOST_BYTES = 64 * 1024


class Peer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where something is asked."""

    address: str = ""
    """HOST:PORT."""
    token_file: str = ""
    """File with the token that it asks for; empty for none."""
    ca_file: str = ""
    """PEM file of the authority that signed its certificate; empty: it is asked without TLS."""
    listed_in: str = ""
    """In place of an address: a JSON file of name → HOST:PORT. It is read whenever the peer is asked: it need not be
    there before the peer is, and one that comes back at another port is found again."""
    name: str = ""
    """The peer's in that file."""

    def where(self) -> str:
        """HOST:PORT as it is now; empty while the file does not say.

        Raises `DashboardError` for another file.
        """
        return self._read().get(self.name, "") if self.listed_in else self.address

    def news(self) -> str:
        """Return why the peer is not there, if its file says so under ``NAME.news``, else nothing.

        Raises `DashboardError` for another file.
        """
        return self._read().get(f"{self.name}.news", "") if self.listed_in else ""

    def _read(self) -> dict[str, str]:
        try:
            with Path(self.listed_in).open("rb") as file:
                data = file.read(_MOST_BYTES)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise DashboardError(f"expected addresses in {self.listed_in}, was {error.strerror}") from None
        try:
            return msgspec.json.decode(data, type=dict[str, str])
        except msgspec.DecodeError as error:
            raise DashboardError(f"expected name: HOST:PORT as JSON in {self.listed_in}, was {error}") from None
