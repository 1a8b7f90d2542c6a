"""Requests to a running runtime, with every failure as one line."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any, Final

import msgspec

from deltabook.cli._addresses import address
from deltabook.cli._errors import ConfigurationError
from deltabook.wire.catalogue import Changed

__all__ = ["get", "given", "open_results", "send"]

_TIMEOUT_SECONDS: Final = 30.0


def given(results: str | None) -> str:
    """The address, which must be there; raises `ConfigurationError`."""
    if results is None:
        raise ConfigurationError("expected --results HOST:PORT of a running runtime (it prints its port at start)")
    return results


def open_results(
    results: str, path: str, timeout: float | None = _TIMEOUT_SECONDS, *, method: str = "GET", body: bytes | None = None
) -> Any:
    """An answer of the runtime at HOST:PORT, to be read and closed; raises `ConfigurationError` with its refusal."""
    address(results, "--results")
    try:
        headers = {"Content-Type": "application/json"} if body else {}
        request = urllib.request.Request(f"http://{results}{path}", method=method, data=body, headers=headers)
        return urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        raise ConfigurationError(error.read().decode("utf-8", "replace").strip() or str(error)) from None
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise ConfigurationError(f"expected a runtime's results service at {results}, was: {reason}") from None


def send(results: str | None, method: str, path: str, timeout: float, body: bytes | None = None) -> Changed:
    """A change of the catalogue that is waited for."""
    with open_results(given(results), path, timeout + _TIMEOUT_SECONDS, method=method, body=body) as response:
        return msgspec.json.decode(response.read(), type=Changed)


def get(results: str, path: str) -> bytes:
    """The whole answer to a GET."""
    with open_results(results, path) as response:
        data: bytes = response.read()
        return data
