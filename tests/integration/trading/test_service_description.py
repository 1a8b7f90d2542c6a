"""The results service is what its description says: schemathesis finds nothing; and it speaks TLS to who trusts it."""

from __future__ import annotations

import http.client
import json
import os
import random
import ssl
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from deltabook.wire.service import Statistics, ViewLine
from queries import query_path
from tests.generators.certificates import make_certificate
from tests.integration._processes import Running, exchange, runtime

pytestmark = [pytest.mark.process]

SEED = int(os.environ.get("DELTABOOK_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
TOKEN = "0123456789abcdef-0123456789"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
VIEWS = ["best_quote", "broker_volume", "book_depth"]
TRACE = query_path("book_depth").with_name("trace-5000.csv")
REPLAY = ["--replay", str(TRACE), "--replay-mode", "as-recorded", "--symbol", "TRACE", "--speed", "max"]
ENDLESS = ["/v1/changes", "/v1/stream"]
"""Answers without an end."""
SETTINGS = """\
[[operations]]
exclude-method = "DELETE"
parameters = { "path.view" = "best_quote" }

[checks.positive_data_acceptance]
# SQL is more than a string: what cannot be kept is a 422. A cursor that is not used for a minute is gone: 410.
expected-statuses = ["2xx", "404", "409", "410", "422", "503"]

[checks.negative_data_rejection]
# The tool's own, and 413 for a body longer than the service reads.
expected-statuses = ["400", "401", "403", "404", "405", "406", "409", "413", "415", "422", "428", "429", "5xx"]
"""


class Served:
    """A runtime that asks for a token and speaks TLS at all interfaces."""

    def __init__(self, directory: Path, feed_port: int, views: list[str]) -> None:
        self.directory = directory
        self.cert, key = make_certificate(directory)
        token = directory / "token"
        token.write_text(TOKEN + "\n")
        express = ",".join(str(query_path(name)) for name in views)
        where = ["--interface", "0.0.0.0", "--tls-cert", str(self.cert), "--tls-key", str(key), "--token-file"]
        options = ["--no-spark", "--express", express, "--requests-per-s", "100000", "--reader-dir", str(directory)]
        self.process: Running = runtime(directory / "runtime", feed_port, [], *where, str(token), *options)

    @property
    def port(self) -> int:
        """Where it listens."""
        return self.process.ready().ports["http"]

    def ask(self, path: str, headers: Mapping[str, str] = BEARER) -> tuple[int, bytes]:
        """Status and body."""
        trusting = ssl.create_default_context(cafile=str(self.cert))
        connection = http.client.HTTPSConnection("localhost", self.port, timeout=60, context=trusting)
        connection.request("GET", path, headers=dict(headers))
        answer = connection.getresponse()
        found = answer.status, answer.read()
        connection.close()
        return found

    def described(self, *options: str) -> None:
        """Run schemathesis; it must find nothing."""
        settings = self.directory / "schemathesis.toml"
        settings.write_text(SETTINGS)
        program = Path(sys.executable).with_name("schemathesis")
        arguments = [
            str(program), "--config-file", str(settings), "run", f"https://localhost:{self.port}/v1/openapi.json",
            "--tls-verify", str(self.cert), "--header", f"Authorization: Bearer {TOKEN}", "--seed", str(SEED),
            "--warnings", "off", *(part for path in ENDLESS for part in ("--exclude-path", path)), *options,
        ]  # fmt: skip
        done = subprocess.run(arguments, cwd=self.directory, capture_output=True, text=True, timeout=900, check=False)
        told = f"DELTABOOK_TEST_SEED={SEED}\n{done.stdout[-20_000:]}\n{done.stderr[-5_000:]}"
        sys.stderr.write(told)
        assert done.returncode == 0, told
        site = msgspec.json.decode(self.ask("/v1/statistics")[1], type=Statistics).site
        assert site.requests > 20
        assert site.failed_requests == 0


def test_schemathesis_finds_nothing_and_the_token_is_required(tmp_path: Path) -> None:
    served = Served(tmp_path, 1, ["best_quote"])
    with served.process:
        assert served.ask("/v1/views", {})[0] == 401
        views = msgspec.json.decode(served.ask("/v1/views")[1], type=tuple[ViewLine, ...])
        assert [view.name for view in views] == ["best_quote"]
        with pytest.raises(ssl.SSLCertVerificationError):
            http.client.HTTPSConnection("localhost", served.port, timeout=60).request("GET", "/v1/views")
        plain = http.client.HTTPConnection("localhost", served.port, timeout=60)
        plain.request("GET", "/v1/views")
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            plain.getresponse()
        served.described("--max-examples", "2", "--phases", "examples,fuzzing")


@pytest.mark.slow
@pytest.mark.timeout(1000)
def test_schemathesis_finds_nothing_in_minutes(tmp_path: Path) -> None:
    with exchange(tmp_path / "exchange", *REPLAY) as market:
        served = Served(tmp_path, market.ready().ports["text"], VIEWS)
        with served.process:
            served.process.wait_for("feed_sequence", 4_000)
            served.described("--max-examples", "200", "--max-time", "240", "--continue-on-failure")
            assert json.loads(served.ask("/v1/status")[1])["failed_views"] == 0
