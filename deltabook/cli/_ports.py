"""Requests to a port of a process that runs, with every failure as one line."""

from __future__ import annotations

import http.client
import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

import msgspec

from deltabook.cli._errors import ConfigurationError

__all__ = ["ANY_INTERFACE", "ask", "print_json", "read_token"]

ANY_INTERFACE: Final = frozenset({"", "0.0.0.0", "::"})
_TIMEOUT_SECONDS: Final = 30.0
_NO_TOKEN: Final = 401
_NOT_FOUND: Final = 404


def read_token(path: Path) -> str:
    """The token that a file holds; raises `ConfigurationError`."""
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not ASCII"
        raise ConfigurationError(f"expected a token in {path}, was {reason}") from None
    if not token.isprintable():
        # Nothing of what it holds: it may be a file of other secrets.
        raise ConfigurationError(f"expected a token as the only line of {path}, was more")
    return token


def ask(
    where: str,
    path: str,
    body: bytes | None,
    token: str,
    *,
    what: str,
    ca: Path | None = None,
    timeout_s: float = _TIMEOUT_SECONDS,
) -> bytes:
    """The answer of ``what`` at HOST:PORT to a GET or, with a body, a POST; with ``ca`` over TLS.

    Raises `ConfigurationError` with the port's own words, or ours where it has none.
    """
    headers = {"Content-Type": "application/json"} if body is not None else {}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    scheme, extra = ("https", [_trusting(ca)]) if ca else ("http", [])
    request = urllib.request.Request(f"{scheme}://{where}{path}", data=body, headers=headers)
    # Proxies of the environment do not apply to a port of this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), *extra)
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            data: bytes = answer.read()
            return data
    except urllib.error.HTTPError as error:
        answer = error.read().decode("utf-8", "replace").strip() or str(error)
        if is_other_port(error.code, answer):
            raise ConfigurationError(f"expected {what} at {where}, was another port") from None
        raise ConfigurationError(f"{answer} (--token-file)" if error.code == _NO_TOKEN else answer) from None
    except http.client.HTTPException:
        raise ConfigurationError(f"expected {what} at {where}, was another port") from None
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise ConfigurationError(f"expected {what} at {where}, was: {reason}") from None


def is_other_port(code: int, answer: str) -> bool:
    """Return True if a refusal is that of a port of ours for another purpose: it names the paths that it has."""
    return code == _NOT_FOUND and answer.startswith(("expected one of /", "expected to get one of /"))


def _trusting(ca: Path) -> urllib.request.HTTPSHandler:
    try:
        return urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(ca)))
    except OSError as error:
        raise ConfigurationError(f"expected certificates in PEM in {ca}, was {error}") from None


def print_json(answer: object) -> None:
    """One JSON object."""
    sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
    sys.stdout.flush()
