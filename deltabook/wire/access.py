# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""Access to a port: for programs on this machine, or for clients that send the token of a trusted file."""

from __future__ import annotations

import hmac
import ipaddress
import os
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import msgspec

from deltabook.wire.errors import AccessError

__all__ = ["Access", "PortSecurity", "check_way_of_token", "is_loopback", "misuse_of_trusted", "read_token"]

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_LEAST_TOKEN: Final = 16
_LONGEST_TOKEN: Final = 1_000


def misuse_of_trusted(path: Path) -> str:
    """Return a message if other users than the owner may write a file with secrets, otherwise an empty text.

    A user who can write such a file can grant themselves access. The private group of this process's user, which has
    the user's number, counts as the owner. The file's owner is not compared with this process's user: in a container, a
    mounted file keeps the number that its owner has outside. Raises `OSError` for a missing file.
    """
    status = path.stat()
    mode = status.st_mode
    is_private = status.st_gid == os.getegid() == os.geteuid()
    if not mode & (stat.S_IWOTH if is_private else _OTHERS_WRITE):
        return ""
    return f"expected {path} to be writable by its owner alone (chmod go-w), was mode {stat.S_IMODE(mode):04o}"


def is_loopback(host: str) -> bool:
    """Return True if an address is one of this machine's loopback addresses, including IPv4 addresses in IPv6."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def check_way_of_token(token: str, address: str, *, is_encrypted: bool) -> None:
    """Raise `AccessError` if a token would be sent unencrypted to another machine; ``address`` is HOST:PORT."""
    host = address.rpartition(":")[0].strip("[]")
    if token and not is_encrypted and not is_loopback(host):
        raise AccessError(
            f"expected TLS to send a token to another machine (a CA file turns it on), was none for {host}"
        )


def read_token(path: str) -> str:
    """Return the token in a file; raise `AccessError` if the file cannot be read or trusted, or has no valid token."""
    try:
        token, misuse = Path(path).read_text(encoding="ascii").strip(), misuse_of_trusted(Path(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not ASCII"
        raise AccessError(f"expected a token in {path}, was {reason}") from None
    if misuse:
        raise AccessError(misuse)
    if not (_LEAST_TOKEN <= len(token) <= _LONGEST_TOKEN and token.isprintable() and " " not in token):
        raise AccessError(
            f"expected a token of {_LEAST_TOKEN} to {_LONGEST_TOKEN} characters without blanks in {path}, "
            f"was one of {len(token)}"
        )
    return token


def _without_port(address: str) -> str:
    """Return the host in ``HOST``, ``HOST:PORT`` or ``[ADDRESS]:PORT``."""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.partition(":")[0]


class Access:
    """Admits or refuses requests."""

    def __init__(self, token: str = "", origins: Collection[str] = (), names: Collection[str] = ()) -> None:
        """Admit only clients on this machine; with a token, admit the clients that send the token.

        ``origins`` are the origins of pages that may use the port, such as ``http://127.0.0.1:8000``. With ``names``
        and without a token, a client is admitted if the host that its request names is one of ``names`` or a name of
        this machine.
        """
        self._expected = f"Bearer {token}".encode("ascii") if token else b""
        self._origins = frozenset(origins)
        self._names = frozenset(names)

    @property
    def has_token(self) -> bool:
        """True if clients must send the token."""
        return bool(self._expected)

    def is_page(self, origin: str | None) -> bool:
        """Return True if a request comes from a page that may use the port."""
        return origin in self._origins

    def refusal_of(self, request: Any, *, admits_own_pages: bool = False) -> tuple[int, str] | None:
        """Return the result of `refusal` for a request of Twisted.

        With ``admits_own_pages``, pages that this port serves may send an origin.
        """
        origin, requested = request.getHeader("origin"), request.getHeader("host")
        if admits_own_pages and origin == f"{'https' if request.isSecure() else 'http'}://{requested}":
            origin = None
        host = str(getattr(request.getClientAddress(), "host", ""))
        return self.refusal(host, request.getHeader("authorization"), origin, requested)

    def refusal(
        self, host: str, authorization: str | None, origin: str | None, requested: str | None = None
    ) -> tuple[int, str] | None:
        """Return the HTTP status and the reason with which a request is refused; None if the request is admitted.

        ``host`` is the address of the client. ``origin`` is the origin of the page that sends the request. Browsers
        send it if the page is from another port or if the request changes something; only known origins are admitted.
        ``requested`` is the host and port by which the client addresses this port. Without a token, this host must be a
        name of this machine or one of ``names``: otherwise a foreign page whose domain name resolves to this machine
        could read the answers.
        """
        if origin is not None and origin not in self._origins:
            return 403, f"expected a program, was a page of {origin[:80]}"
        if self._expected:
            given = (authorization or "").encode("utf-8", "surrogateescape")
            return (
                None if hmac.compare_digest(given, self._expected) else (401, "expected the token, was another or none")
            )
        if not self._names and not is_loopback(host):
            return 403, f"expected a request from this machine, was {host or 'an unknown address'}"
        if requested is not None and not is_loopback(name := _without_port(requested)) and name not in self._names:
            return 403, f"expected a request to localhost or a loopback address, was one to {requested[:80]}"
        return None


class PortSecurity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Security settings of a port. A path is empty for none."""

    token_file: str = ""
    """File with the token that the port requires."""
    tls_cert: str = ""
    """PEM file with the port's certificate, followed by the certificates that lead to its authority."""
    tls_key: str = ""
    """PEM file with the certificate's private key."""
    origins: tuple[str, ...] = ()
    """Origins of pages of other ports that may use this port."""
    private_names: tuple[str, ...] = ()
    """Names of the port in a private network, in which the port needs neither a token nor TLS; empty: the network is
    not private. The host that a request names must still be one of these names or a name of this machine. Otherwise a
    foreign page whose domain name resolves to the port's address could read the answers, in a browser that reaches the
    port.
    """

    def check(self, interface: str) -> None:
        """Raise `AccessError` for a port that would be open to strangers, or whose files are invalid.

        Unless its network is private, a port that is not on loopback requires both a token and TLS, because others
        could read a token that is sent unencrypted.
        """
        if bool(self.tls_cert) != bool(self.tls_key):
            missing, given = ("key", "certificate") if self.tls_cert else ("certificate", "key")
            raise AccessError(f"expected a TLS certificate and its key, was a {given} without a {missing}")
        if not is_loopback(interface) and not self.private_names:
            if not self.token_file:
                raise AccessError(f"expected a token for a port that is not on loopback, was none at {interface}")
            if not self.tls_cert:
                raise AccessError(f"expected TLS for a port that is not on loopback, was no certificate at {interface}")
        self.access()
        if self.tls_cert:
            self.context_factory()

    def token(self) -> str:
        """Return the token that the port requires, empty for none; raise `AccessError` as `read_token` does."""
        return read_token(self.token_file) if self.token_file else ""

    def access(self) -> Access:
        """Return the rules of admission; raise `AccessError` as `read_token` does."""
        return Access(self.token(), self.origins, self.private_names)

    def listen(self, reactor: Any, port: int, site: Any, interface: str) -> Any:
        """Open the port for a factory, with TLS if there is a key; raise `AccessError` and the reactor's errors."""
        self.check(interface)
        if not self.tls_cert:
            return reactor.listenTCP(port, site, interface=interface)
        return reactor.listenSSL(port, site, self.context_factory(), interface=interface)

    def context_factory(self) -> Any:
        """Return a factory of contexts for TLS 1.2 or newer.

        Raise `AccessError` for a certificate or key that cannot be read, and for a key that does not fit the
        certificate.
        """
        # Without TLS, OpenSSL is not loaded.
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
        from OpenSSL import SSL
        from twisted.internet.ssl import ContextFactory

        context = SSL.Context(SSL.TLS_METHOD)
        context.set_min_proto_version(SSL.TLS1_2_VERSION)
        context.set_options(SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION)
        try:
            Path(self.tls_cert).read_bytes()  # for a missing file OpenSSL's error says less
            if misuse := misuse_of_trusted(Path(self.tls_key)):
                raise AccessError(misuse)
            private: Any = load_pem_private_key(Path(self.tls_key).read_bytes(), None)
            context.use_certificate_chain_file(self.tls_cert)
            context.use_privatekey(private)  # the key must fit the certificate
        except OSError as error:
            raise AccessError(f"expected a readable file, was {error.filename}: {error.strerror}") from None
        except (SSL.Error, ValueError, TypeError) as error:  # TypeError: the key has a password
            raise AccessError(
                f"expected a certificate in {self.tls_cert} and its key without a password in {self.tls_key}, "
                f"was {_reason(error)}"
            ) from None
        factory: Any = ContextFactory()
        factory.getContext = lambda: context
        return factory


def _reason(error: Exception) -> str:
    """Return the reason of an error: the last entry of OpenSSL's list, or the first sentence."""
    reason = error.args[0] if error.args else ""
    if isinstance(reason, list):
        return str(reason[-1][-1]) if reason else "not PEM"
    return str(reason).partition(".")[0]
