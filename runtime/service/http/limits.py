"""What one client may take, and all of them together."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

__all__ = ["Connections", "Rates", "SiteLimits", "client_of"]

_PREFIX_IPV6: Final = 64
"""Bits of an address that a network gives to one client."""


class SiteLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Bounds of the service; what is past one is refused with the bound."""

    connections: int = 2_000
    """Open at once, subscribers among them."""
    connections_per_client: int = 1_500
    """Of one client address; all programs of this machine are one."""
    requests_per_s: float = 1_000.0
    """Of one client address, after a burst."""
    burst: int = 2_000
    """Requests that may come at once."""
    clients: int = 4_096
    """Client addresses whose requests are counted; the one heard of longest ago is forgotten first."""
    target_bytes: int = 8 * 1024
    """Path and query of a request."""
    body_bytes: int = 1024 * 1024
    """Body of a request."""
    bodies_bytes: int = 64 * 1024 * 1024
    """Bodies of all requests that are arriving."""
    request_s: float = 30.0
    """From the first line of a request to its last byte."""
    idle_s: float = 60.0
    """Between two requests of a connection, or two bytes of one."""
    stalled_s: float = 60.0
    """How long a client may take nothing of an answer that it has asked for."""
    json_rows: int = 100_000
    """Rows in one JSON answer, repeated ones counted: it is made on the reactor's thread."""
    answer_bytes: int = 1024 * 1024 * 1024
    """Of an Arrow answer: rows as they lie in memory, repeated ones counted."""
    answers_bytes: int = 2 * 1024 * 1024 * 1024
    """Of all Arrow answers that are being sent."""


def client_of(host: str) -> str:
    """By what a client is known: its address, or its network where an address is one of very many."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 4:
        return host
    if (mapped := address.ipv4_mapped) is not None:
        return str(mapped)
    return str(ipaddress.ip_network((address, _PREFIX_IPV6), strict=False))


class Rates:
    """Token buckets, one a client; O(1) a request."""

    def __init__(self, per_s: float, burst: int, clients: int, now_s: Callable[[], float]) -> None:
        self._per_s, self._burst, self._clients, self._now_s = per_s, burst, clients, now_s
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when

    def wait_s(self, client: str) -> float:
        """Take a token: 0; or how long it takes until there is one."""
        now_s = self._now_s()
        tokens, at_s = self._buckets.pop(client, (float(self._burst), now_s))
        tokens = min(self._burst, tokens + (now_s - at_s) * self._per_s)
        is_let = tokens >= 1
        self._buckets[client] = tokens - is_let, now_s
        if len(self._buckets) > self._clients:
            self._buckets.popitem(last=False)
        return 0.0 if is_let else (1 - tokens) / self._per_s

    def __len__(self) -> int:
        """Clients that are counted."""
        return len(self._buckets)


class Connections:
    """Connections that are open, in all and by client."""

    def __init__(self, most: int, most_per_client: int) -> None:
        self._most, self._most_per_client = most, most_per_client
        self._of: dict[str, int] = {}
        self.open = 0
        """In all."""

    def taken(self, client: str) -> str:
        """Count one more: nothing, or else why it is one too many."""
        if self.open >= self._most:
            return f"expected at most {self._most} connections, was one more"
        own = self._of.get(client, 0)
        if own >= self._most_per_client:
            return f"expected at most {self._most_per_client} connections of {client}, was one more"
        self.open += 1
        self._of[client] = own + 1
        return ""

    def lost(self, client: str) -> None:
        """One that was counted has ended."""
        self.open -= 1
        self._of[client] -= 1
        if not self._of[client]:
            del self._of[client]
