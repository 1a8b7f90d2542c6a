"""Limits of the service's ports, for each client and for all of them together."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

__all__ = ["Connections", "Rates", "SiteLimits", "client_of"]

_PREFIX_IPV6: Final = 64
"""Length of the network prefix that identifies one client."""


class SiteLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of the service; a request that exceeds a limit is refused with an error that states the limit."""

    connections: int = 2_000
    """Greatest number of open connections, including subscribers."""
    connections_per_client: int = 1_500
    """Greatest number of open connections of one client address; all programs of this machine share one address."""
    requests_per_s: float = 1_000.0
    """Greatest number of requests a second of one client address, after a burst."""
    burst: int = 2_000
    """Greatest number of requests of one client address that may arrive at once, above the rate."""
    clients: int = 4_096
    """Greatest number of client addresses whose requests are counted; above it, the least recently used is evicted."""
    target_bytes: int = 8 * 1024
    """Greatest size of path and query of a request, in bytes."""
    body_bytes: int = 1024 * 1024
    """Greatest size of the body of a request, in bytes."""
    bodies_bytes: int = 64 * 1024 * 1024
    """Greatest total size of the bodies of all requests that are arriving, in bytes."""
    request_s: float = 30.0
    """Timeout from the first byte of a request to its last, in seconds."""
    idle_s: float = 60.0
    """Timeout between two requests of a connection, or two bytes of one request, in seconds."""
    stalled_s: float = 60.0
    """Time in seconds after which a client that reads nothing of its answer is disconnected."""
    json_rows: int = 100_000
    """Greatest number of rows, repetitions included, of one JSON answer, which is encoded on the reactor's thread."""
    answer_bytes: int = 1024 * 1024 * 1024
    """Greatest size in memory of the rows of an Arrow answer, repetitions included, in bytes."""
    answers_bytes: int = 2 * 1024 * 1024 * 1024
    """Greatest total size of all answers that are being sent piece by piece, in bytes."""


def client_of(host: str) -> str:
    """Return the identity of a client: its address, or its network for IPv6, where one client has many addresses."""
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
    """Token buckets, one for each client; O(1) for each request."""

    def __init__(self, per_s: float, burst: int, clients: int, now_s: Callable[[], float]) -> None:
        self._per_s, self._burst, self._clients, self._now_s = per_s, burst, clients, now_s
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # client → tokens, time

    def wait_s(self, client: str) -> float:
        """Take a token and return 0; if there is no token, return the seconds until there is one."""
        now_s = self._now_s()
        tokens, at_s = self._buckets.pop(client, (float(self._burst), now_s))
        tokens = min(self._burst, tokens + (now_s - at_s) * self._per_s)
        is_let = tokens >= 1
        self._buckets[client] = tokens - is_let, now_s
        if len(self._buckets) > self._clients:
            self._buckets.popitem(last=False)
        return 0.0 if is_let else (1 - tokens) / self._per_s

    def __len__(self) -> int:
        """Return the number of clients whose requests are counted."""
        return len(self._buckets)


class Connections:
    """Counts of open connections, in total and by client."""

    def __init__(self, most: int, most_per_client: int) -> None:
        self._most, self._most_per_client = most, most_per_client
        self._by_client: dict[str, int] = {}
        self.open = 0
        """Total number of open connections."""

    def taken(self, client: str) -> str:
        """Count a new connection and return an empty string, or return the reason why it exceeds a limit."""
        if self.open >= self._most:
            return f"expected at most {self._most} connections, was one more"
        own = self._by_client.get(client, 0)
        if own >= self._most_per_client:
            return f"expected at most {self._most_per_client} connections of {client}, was one more"
        self.open += 1
        self._by_client[client] = own + 1
        return ""

    def lost(self, client: str) -> None:
        """Remove a counted connection."""
        self.open -= 1
        self._by_client[client] -= 1
        if not self._by_client[client]:
            del self._by_client[client]
