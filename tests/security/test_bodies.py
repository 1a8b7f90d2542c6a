# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""Bodies that would cost a parser much are bad requests, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.generators.operated import Operated
from tests.generators.results_lab import ResultsLab

_DEEP = b"[" * 7_000 + b"]" * 7_000
BODIES = (
    b'{"x":' + _DEEP + b"}",
    b'{"rows":' + _DEEP + b"}",
    _DEEP,
    b"[" * 15_000,
    b'{"a":' * 3_000,
    b'{"rows":' + b"9" * 15_000 + b"}",
    b'{"rows":1e' + b"9" * 15_000 + b"}",
    b'"' + b"\\u0000" * 2_000 + b'"',
    b"\xff" * 15_000,
)


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_nested_json_is_a_bad_request(tmp_path: Path, body: bytes) -> None:
    assert ResultsLab().ask("/v1/views/m/cursor", "POST", body).status == 400
    operated = Operated(tmp_path)
    for path in ("/v1/phase", "/v1/trades/bust"):
        answer = operated.ask(path, "POST", body)
        assert (answer.status, "\n" in answer.text) == (400, False)
    assert operated.exchange.inputs == 0
    operated.close()
