# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""A port that would be open to strangers is not opened, and that is said before anything is begun."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.testing import MemoryReactor
from twisted.web.resource import Resource
from twisted.web.server import Site

from deltabook.wire.access import PortSecurity
from runtime.service.config import LiveConfig
from runtime.service.errors import ServiceError
from runtime.service.listening import ServicePort
from tests.generators.certificates import make_certificate


def config(**settings: Any) -> LiveConfig:
    return LiveConfig(directory=Path("nowhere"), feed=("127.0.0.1", 1), **settings)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"interface": "0.0.0.0"}, "expected a token for a port that is not on loopback, was none at 0.0.0.0"),
        ({"security": PortSecurity(tls_cert="no.pem", tls_key="no.pem")}, "expected a readable file, was no.pem"),
        ({"security": PortSecurity(token_file="nothing")}, "expected a token in nothing, was No such file"),
    ],
    ids=["interface", "certificate", "token"],
)
def test_a_port_that_would_be_open_to_strangers_is_refused(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(ServiceError, match=expected):
        ServicePort(MemoryReactor(), config(**settings), 0)


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServiceError, match=f"expected a free port, was 127.0.0.1:{port}: "):
            ServicePort(MemoryReactor(), config(), port)


def test_a_port_with_a_key_speaks_tls(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("0123456789abcdef")
    cert, key = make_certificate(tmp_path)
    reactor = MemoryReactor()
    secure = config(interface="0.0.0.0", security=PortSecurity(str(tmp_path / "token"), str(cert), str(key)))
    ServicePort(reactor, secure, 0).open(Site(Resource()))
    assert [(one[0], one[4]) for one in reactor.sslServers] == [(0, "0.0.0.0")]
    assert not reactor.tcpServers
