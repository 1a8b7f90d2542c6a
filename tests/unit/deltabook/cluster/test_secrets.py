"""A folder of secrets: whole, kept, and for nobody else."""

from __future__ import annotations

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography import x509

from deltabook.cli.cluster import secrets
from deltabook.cluster.errors import SecretsError
from deltabook.cluster.secrets import CERTIFICATES, TOKENS, make_secrets
from deltabook.wire.access import PortSecurity, read_token

NOW = datetime(2030, 1, 1, tzinfo=UTC)
FILES = {*TOKENS, "ca.pem", "ca.key", *(f"{name}.{end}" for name in CERTIFICATES for end in ("pem", "key"))}


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_everything_is_made_once_and_kept_then(tmp_path: Path) -> None:
    made = make_secrets(tmp_path / "s", now=NOW)
    assert (set(made.made), made.kept) == (FILES, ())
    before = contents(tmp_path / "s")
    again = make_secrets(tmp_path / "s", now=NOW)
    assert (again.made, set(again.kept)) == ((), FILES)
    assert contents(tmp_path / "s") == before


def test_secrets_differ_and_are_tokens_that_ports_take(tmp_path: Path) -> None:
    make_secrets(tmp_path, now=NOW)
    assert len({read_token(str(tmp_path / name)) for name in TOKENS}) == len(TOKENS)


def test_only_the_container_can_read_its_files(tmp_path: Path) -> None:
    make_secrets(tmp_path / "s", now=NOW)
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "s").iterdir()}
    assert modes.pop("ca.key") == 0o600
    assert set(modes.values()) == {0o444}


def test_a_folder_that_is_open_is_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_secrets(tmp_path, now=NOW)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


@pytest.mark.parametrize("name", CERTIFICATES)
def test_certificates_name_the_services_and_this_machine(tmp_path: Path, name: str) -> None:
    make_secrets(tmp_path, ["more.example.org", "192.0.2.7"], now=NOW)
    authority = x509.load_pem_x509_certificate((tmp_path / "ca.pem").read_bytes())
    certificate = x509.load_pem_x509_certificate((tmp_path / f"{name}.pem").read_bytes())
    certificate.verify_directly_issued_by(authority)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert set(names.get_values_for_type(x509.DNSName)) == {"localhost", *CERTIFICATES[name], "more.example.org"}
    assert set(map(str, names.get_values_for_type(x509.IPAddress))) == {"127.0.0.1", "192.0.2.7"}
    # What a port of ours checks before it opens: that the key is the certificate's.
    PortSecurity(str(tmp_path / "runtime.token"), str(tmp_path / f"{name}.pem"), str(tmp_path / f"{name}.key")).check(
        "0.0.0.0"
    )
    ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))


def test_an_expiring_certificate_is_renewed_by_its_authority(tmp_path: Path) -> None:
    first = make_secrets(tmp_path, now=NOW)
    ends = datetime.fromisoformat(first.expires).replace(tzinfo=UTC)
    assert make_secrets(tmp_path, now=ends - timedelta(days=31)).made == ()
    later = make_secrets(tmp_path, now=ends - timedelta(days=29))
    assert set(later.made) == {f"{name}.{end}" for name in CERTIFICATES for end in ("pem", "key")}
    assert datetime.fromisoformat(later.expires).replace(tzinfo=UTC) > ends
    authority = x509.load_pem_x509_certificate((tmp_path / "ca.pem").read_bytes())
    for name in CERTIFICATES:
        x509.load_pem_x509_certificate((tmp_path / f"{name}.pem").read_bytes()).verify_directly_issued_by(authority)


def test_a_further_name_renews_the_certificates_and_stays(tmp_path: Path) -> None:
    make_secrets(tmp_path, now=NOW)
    assert "algo.pem" in make_secrets(tmp_path, ["board.example.org"], now=NOW).made
    assert make_secrets(tmp_path, ["board.example.org"], now=NOW).made == ()


def test_a_certificate_without_its_key_is_made_again(tmp_path: Path) -> None:
    make_secrets(tmp_path, now=NOW)
    (tmp_path / "algo.key").unlink()
    assert make_secrets(tmp_path, now=NOW).made == ("algo.key", "algo.pem")


def test_certificates_of_a_lost_authority_are_made_again(tmp_path: Path) -> None:
    make_secrets(tmp_path, now=NOW)
    for name in ("ca.pem", "ca.key"):
        (tmp_path / name).unlink()
    made = make_secrets(tmp_path, now=NOW).made
    assert set(made) == FILES - set(TOKENS)
    authority = x509.load_pem_x509_certificate((tmp_path / "ca.pem").read_bytes())
    for name in CERTIFICATES:
        x509.load_pem_x509_certificate((tmp_path / f"{name}.pem").read_bytes()).verify_directly_issued_by(authority)


def test_a_certificate_with_the_key_of_another_is_made_again(tmp_path: Path) -> None:
    make_secrets(tmp_path, now=NOW)
    (tmp_path / "algo.key").unlink()
    (tmp_path / "algo.key").write_bytes((tmp_path / "runtime.key").read_bytes())
    assert make_secrets(tmp_path, now=NOW).made == ("algo.key", "algo.pem")


def test_an_open_folder_of_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    tmp_path.chmod(0o755)
    with pytest.raises(SecretsError, match=f"expected a folder with secrets only, was {tmp_path}, which has letters"):
        make_secrets(tmp_path, now=NOW)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["letters"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("runtime.token", b"\n", "expected a secret in .*runtime.token, was nothing"),
        ("ca.pem", b"nonsense", "expected a certificate in PEM in .*ca.pem"),
        ("ca.key", b"nonsense", "expected a private key in PEM without a password in .*ca.key"),
        ("ca.key", None, "expected .*ca.key beside .*ca.pem, was missing"),
    ],
    ids=["empty", "certificate", "key", "missing"],
)
def test_what_is_broken_is_named_and_not_replaced(tmp_path: Path, name: str, content: bytes | None, words: str) -> None:
    make_secrets(tmp_path, now=NOW)
    path = tmp_path / name
    path.chmod(0o600)
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(SecretsError, match=words):
        make_secrets(tmp_path, now=NOW)
    assert (path.read_bytes() if path.exists() else None) == content


def test_the_command_shows_nothing_of_what_it_makes(tmp_path: Path) -> None:
    for arguments in ([], ["--json"]):
        result = CliRunner().invoke(secrets, [str(tmp_path), *arguments])
        assert result.exit_code == 0, result.output
        assert not [name for name in TOKENS if (tmp_path / name).read_text().strip() in result.output]
        assert "PRIVATE" not in result.output
    assert CliRunner().invoke(secrets, [str(tmp_path)]).output.startswith(f"secrets in {tmp_path}: all there")
