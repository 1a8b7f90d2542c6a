"""Secrets of a cluster as files: tokens of its ports, the secret of Spark's processes, an authority and certificates.

```
DIR (0700)/ exchange.token runtime.token algo.token   tokens that the ports require, 43 characters each
            spark.secret                              secret by which Spark's processes authenticate
            ca.pem                                    the authority: a client that trusts it trusts the services
            exchange.pem exchange.key …               a certificate for each port that speaks TLS, and its key
            ca.key (0600)                             key of the authority; no container gets it
```

A container runs as another user, and must be able to read the files of the folder that are mounted into the container.
So every user may read the files, but only the owner may open the folder: no other user of the machine can reach the
files.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from deltabook.cluster.errors import SecretsError

__all__ = ["CERTIFICATES", "TOKENS", "Made", "make_secrets"]

TOKENS: Final = ("exchange.token", "runtime.token", "algo.token", "spark.secret")
"""Files with 256 random bits each."""
CERTIFICATES: Final = {
    "exchange": ("exchange",),
    "runtime": ("runtime", "upstream-a", "upstream-b"),
    "algo": ("algo",),
}
"""Services that use each certificate; a certificate also covers this machine's own names, which health checks use."""
_OURS: Final = {*TOKENS, *(f"{name}.{end}" for name in ("ca", *CERTIFICATES) for end in ("pem", "key"))}
_AUTHORITY_DAYS: Final = 3650
"""Validity of the authority in days."""
_CERTIFICATE_DAYS: Final = 398
"""Validity in days; some programs reject a longer one."""
_LEAST_DAYS: Final = 30
"""Days of remaining validity below which a certificate is renewed."""
_RANDOM_BYTES: Final = 32


class Made(msgspec.Struct, frozen=True):
    """Names of the files that were made and kept, without their contents."""

    directory: str
    """Path of the folder."""
    made: tuple[str, ...]
    """Files that were missing, and certificates that had to be renewed."""
    kept: tuple[str, ...]
    """Files that were not changed."""
    expires: str
    """Day on which the first certificate expires, as YYYY-MM-DD."""


def make_secrets(directory: Path, hosts: Sequence[str] = (), now: datetime | None = None) -> Made:
    """Make the missing files; existing ones stay, so that a running cluster continues.

    ``hosts`` are further names of the services in every certificate. A certificate that expires within thirty days, or
    lacks a name, is renewed by the same authority. Raise `SecretsError` if a file cannot be read or written.
    """
    now = now or datetime.now(UTC)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_own(directory)
        directory.chmod(0o700)
        folder = _Folder(directory, now)
        for name in TOKENS:
            folder.token(name)
        authority, key = folder.authority()
        ends = [authority.not_valid_after_utc]
        ends += [
            folder.certificate(name, (*services, *hosts), authority, key) for name, services in CERTIFICATES.items()
        ]
    except OSError as error:
        raise SecretsError(f"expected to keep secrets in {directory}, was {error.strerror}: {error.filename}") from None
    return Made(str(directory), tuple(folder.made), tuple(folder.kept), min(ends).strftime("%Y-%m-%d"))


def _check_own(directory: Path) -> None:
    """Raise `SecretsError` for a folder that other users may open and that has files of another kind: the users would
    lose access to these files.
    """
    if not directory.stat().st_mode & 0o077:
        return
    others = sorted(
        path.name for path in directory.iterdir() if path.name.removesuffix(".new").lstrip(".") not in _OURS
    )
    if others:
        raise SecretsError(f"expected a folder with secrets only, was {directory}, which has {others[0]}")


class _Folder:
    """Writes files, each of them completely or not at all."""

    def __init__(self, directory: Path, now: datetime) -> None:
        self._directory = directory
        self._now = now
        self.made: list[str] = []
        self.kept: list[str] = []

    def token(self, name: str) -> None:
        """Make a file with random text unless it exists; raise `SecretsError` if the file is empty."""
        path = self._directory / name
        if path.exists():
            if not path.read_bytes().strip():
                raise SecretsError(f"expected a secret in {path}, was nothing")
            self.kept.append(name)
        else:
            self._write(name, secrets.token_urlsafe(_RANDOM_BYTES).encode() + b"\n")

    def authority(self) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        """Return the authority and its key; create both if neither exists; raise `SecretsError` if only one exists."""
        shown, hidden = self._directory / "ca.pem", self._directory / "ca.key"
        if shown.exists() != hidden.exists():
            missing, there = (shown, hidden) if hidden.exists() else (hidden, shown)
            raise SecretsError(
                f"expected {missing} beside {there}, was missing; remove every .pem and .key to make a new authority"
            )
        if shown.exists():
            self.kept += ["ca.pem", "ca.key"]
            return _read_certificate(shown), _read_key(hidden)
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Deltabook cluster")])
        usage = x509.KeyUsage(
            digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
            key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        certificate = (
            self._builder(name, name, key, _AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        self._write_key("ca.key", key, 0o600)
        self._write("ca.pem", certificate.public_bytes(serialization.Encoding.PEM))
        return certificate, key

    def certificate(
        self, name: str, hosts: Sequence[str], authority: x509.Certificate, key: ec.EllipticCurvePrivateKey
    ) -> datetime:
        """Make a certificate unless a valid one exists; return its expiry."""
        shown, hidden = f"{name}.pem", f"{name}.key"
        path = self._directory / shown
        names = ("localhost", *dict.fromkeys(hosts))
        if path.exists() and (self._directory / hidden).exists():
            present = _read_certificate(path)
            lasts = present.not_valid_after_utc - self._now > timedelta(days=_LEAST_DAYS)
            is_whole = _read_key(self._directory / hidden).public_key() == present.public_key()
            if lasts and is_whole and _is_of(authority, present) and set(names) <= set(_names(present)):
                self.kept += [shown, hidden]
                return present.not_valid_after_utc
        own = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = (
            self._builder(subject, authority.subject, own, _CERTIFICATE_DAYS)
            .add_extension(x509.SubjectAlternativeName(_general_names(names)), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()),  # type: ignore[arg-type]
                critical=False,
            )
            .sign(key, hashes.SHA256())
        )
        self._write_key(hidden, own, 0o444)
        self._write(shown, made.public_bytes(serialization.Encoding.PEM))
        return made.not_valid_after_utc

    def _builder(
        self, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - timedelta(hours=1))  # clocks of machines differ slightly
            .not_valid_after(self._now + timedelta(days=days))
        )

    def _write_key(self, name: str, key: ec.EllipticCurvePrivateKey, mode: int) -> None:
        data = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self._write(name, data, mode)

    def _write(self, name: str, data: bytes, mode: int = 0o444) -> None:
        hidden = self._directory / f".{name}.new"
        hidden.unlink(missing_ok=True)
        # The file is never readable for others, not even before its mode is set.
        descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        hidden.chmod(mode)
        hidden.replace(self._directory / name)
        self.made.append(name)


def _general_names(names: Sequence[str]) -> list[x509.GeneralName]:
    from ipaddress import ip_address

    general: list[x509.GeneralName] = []
    for name in ("127.0.0.1", *names):
        try:
            general.append(x509.IPAddress(ip_address(name)))
        except ValueError:
            general.append(x509.DNSName(name))
    return general


def _names(certificate: x509.Certificate) -> list[str]:
    """Return the names and addresses of a certificate."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def _is_of(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    """Return True if the certificate was signed by this authority, and not by an earlier one with the same name."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, TypeError, ValueError):
        return False
    return True


def _read_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError:
        raise SecretsError(f"expected a certificate in PEM in {path}, was something else") from None


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError):
        raise SecretsError(f"expected a private key in PEM without a password in {path}, was something else") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise SecretsError(f"expected a key of an elliptic curve in {path}, was {type(key).__name__}")
    return key
