# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""Access to a port: for programs on this machine, or for clients that have the token of a trusted file."""

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


def misuse_of_trusted(path: Path) -> str:
    """Return what a file with secrets should be and what it is, if others than its owner may write it; else nothing.

    A user who can write such a file can grant themselves access. The owner's private group, which has the number of
    this user, counts as the owner. Owners are not compared: in a container a mounted file keeps the number that its
    owner has outside.
    Raises `OSError` for a file that is not there.
    """
    status = path.stat()
    mode = status.st_mode
    is_private = status.st_gid == os.getegid() == os.geteuid()
    if not mode & (stat.S_IWOTH if is_private else _OTHERS_WRITE):
        return ""
    return f"expected {path} to be writable by its owner alone (chmod go-w), was mode {stat.S_IMODE(mode):04o}"


_LEAST_TOKEN: Final = 16
_LONGEST_TOKEN: Final = 1_000


def is_loopback(host: str) -> bool:
    """Return True if an address is this machine's own, also one of IPv4 in IPv6."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def check_way_of_token(token: str, address: str, *, is_encrypted: bool) -> None:
    """Raise `AccessError` if a token would go to another machine, HOST:PORT, as everybody on the way can read it."""
    host = address.rpartition(":")[0].strip("[]")
    if token and not is_encrypted and not is_loopback(host):
        raise AccessError(
            f"expected TLS to send a token to another machine (a CA file turns it on), was none for {host}"
        )


def read_token(path: str) -> str:
    """The token that a file holds; raises `AccessError`."""
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


def _without_port(asked: str) -> str:
    """The host of ``HOST``, ``HOST:PORT`` or ``[ADDRESS]:PORT``."""
    if asked.startswith("["):
        return asked[1:].partition("]")[0]
    return asked.partition(":")[0]


class Access:
    """Decides about requests."""

    def __init__(self, token: str = "", origins: Collection[str] = (), names: Collection[str] = ()) -> None:
        """Admit clients on this machine alone; with a token admit the clients that send it.

        ``origins`` are those of pages that may use the port, such as ``http://127.0.0.1:8000``. With ``names`` and
        without a token every client is admitted that asks for the port by one of them, or by a name of this machine.
        """
        self._expected = f"Bearer {token}".encode("ascii") if token else b""
        self._origins = frozenset(origins)
        self._names = frozenset(names)

    @property
    def has_token(self) -> bool:
        """True if everybody is asked for the token."""
        return bool(self._expected)

    def is_page(self, origin: str | None) -> bool:
        """Return True if a request comes from a page that may use the port."""
        return origin in self._origins

    def refusal(
        self, host: str, authorization: str | None, origin: str | None, asked: str | None = None
    ) -> tuple[int, str] | None:
        """Why a request from an address is refused, with the HTTP status; None if it is not.

        ``origin`` is what a browser says of a page that changes something or is not this port's: only those that are
        known may. ``asked`` is the name and port by which the client knows this one: a page of somebody whose name
        leads to this machine may look at the answers, so that without a token only names of this machine will do.
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
        if asked is not None and not is_loopback(name := _without_port(asked)) and name not in self._names:
            return 403, f"expected a request to localhost or a loopback address, was one to {asked[:80]}"
        return None


class PortSecurity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a port is kept from strangers. Paths are empty for none."""

    token_file: str = ""
    """File with the token that the port asks for."""
    tls_cert: str = ""
    """PEM file with the port's certificate, and behind it those that lead to its authority."""
    tls_key: str = ""
    """PEM file with the certificate's private key."""
    origins: tuple[str, ...] = ()
    """Origins of pages of other ports that may use this one."""
    private_names: tuple[str, ...] = ()
    """Not empty: the network in front of the port is private, so that neither token nor TLS is needed off loopback. A
    request must be to one of these names all the same, or to one of this machine: else a page of somebody whose name
    leads to the port could read the answers in a browser that reaches it."""

    def check(self, interface: str) -> None:
        """Raise `AccessError` for a port that would be open to strangers, or whose files are not what they should be.

        A token without TLS would be shown to everybody on the way, so that both are asked for.
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
        """The token that the port asks for, empty for none; raises `AccessError`."""
        return read_token(self.token_file) if self.token_file else ""

    def access(self) -> Access:
        """Return the rules of admission; raises `AccessError`."""
        return Access(self.token(), self.origins, self.private_names)

    def listen(self, reactor: Any, port: int, site: Any, interface: str) -> Any:
        """Open the port for a factory, with TLS if there is a key; raises `AccessError` and what the reactor does."""
        self.check(interface)
        if not self.tls_cert:
            return reactor.listenTCP(port, site, interface=interface)
        return reactor.listenSSL(port, site, self.context_factory(), interface=interface)

    def context_factory(self) -> Any:
        """TLS 1.2 or newer; the key belongs to the certificate; raises `AccessError`."""
        # Without TLS, OpenSSL is not loaded.
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
        from OpenSSL import SSL
        from twisted.internet.ssl import ContextFactory

        context = SSL.Context(SSL.TLS_METHOD)
        context.set_min_proto_version(SSL.TLS1_2_VERSION)
        context.set_options(SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION)
        try:
            Path(self.tls_cert).read_bytes()  # of a file that is not there OpenSSL says less
            if misuse := misuse_of_trusted(Path(self.tls_key)):
                raise AccessError(misuse)
            private: Any = load_pem_private_key(Path(self.tls_key).read_bytes(), None)
            context.use_certificate_chain_file(self.tls_cert)
            context.use_privatekey(private)  # which has to be that of the certificate
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
    """What went wrong: the last of a list of OpenSSL's, or the first sentence."""
    reason = error.args[0] if error.args else ""
    if isinstance(reason, list):
        return str(reason[-1][-1]) if reason else "not PEM"
    return str(reason).partition(".")[0]
