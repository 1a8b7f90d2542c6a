# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""Requests to a runtime that asks for a token and speaks TLS, or for neither."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.web.client import Agent
from twisted.web.http_headers import Headers

from algo_engine.config import ResultsAccess
from algo_engine.errors import ParameterError
from deltabook.wire.access import check_way_of_token, read_token

__all__ = ["ResultsAgent"]


class ResultsAgent:
    """An agent that says the token with every request, and trusts one authority."""

    def __init__(self, reactor: Any, access: ResultsAccess, connect_s: float, address: str) -> None:
        """Raises `deltabook.wire.errors.AccessError` and `ParameterError` for bad files."""
        policy: dict[str, Any] = {}
        if access.ca_file:
            policy["contextFactory"] = _trusting(access.ca_file)
        self._agent = Agent(reactor, connectTimeout=connect_s, **policy)
        token = read_token(access.token_file) if access.token_file else ""
        check_way_of_token(token, address, is_encrypted=bool(access.ca_file))
        self._headers = {"Authorization": [f"Bearer {token}"]} if token else {}
        self.scheme = "https" if access.ca_file else "http"
        """Scheme of the URLs."""

    def request(self, method: bytes, uri: bytes, headers: Headers | None = None, body: Any = None) -> Deferred[Any]:
        """As `twisted.web.client.Agent.request`."""
        all_headers = Headers(self._headers)
        for name, values in (headers or Headers()).getAllRawHeaders():
            all_headers.setRawHeaders(name, values)
        sent: Deferred[Any] = self._agent.request(method, uri, all_headers, body)
        return sent


def _trusting(path: str) -> Any:
    # Without TLS, OpenSSL is not loaded.
    from twisted.internet.ssl import Certificate, trustRootFromCertificates
    from twisted.web.client import BrowserLikePolicyForHTTPS

    try:
        parts = Path(path).read_bytes().split(b"-----BEGIN CERTIFICATE-----")[1:]
        certificates = [Certificate.loadPEM(b"-----BEGIN CERTIFICATE-----" + part) for part in parts]
    except OSError as error:
        raise ParameterError(f"expected a file of certificates, was {path}: {error.strerror}") from None
    except Exception as error:
        raise ParameterError(f"expected certificates in PEM in {path}, was {type(error).__name__}") from error
    if not certificates:
        raise ParameterError(f"expected a certificate in PEM in {path}, was none")
    return BrowserLikePolicyForHTTPS(trustRootFromCertificates(certificates))
