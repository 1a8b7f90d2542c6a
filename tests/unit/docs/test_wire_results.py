"""What docs/wire.md says of the results service is what the service is made of."""

from __future__ import annotations

import re
from pathlib import Path

from runtime.service.http.limits import SiteLimits
from runtime.service.http.readers import ReaderRoutes
from tests.generators.results_lab import ResultsLab
from tests.unit.runtime.service.http.test_openapi import NoReaders

TEXT = (Path(__file__).parents[3] / "docs" / "wire.md").read_text(encoding="utf-8")


def test_every_route_stands_in_the_table() -> None:
    told = ResultsLab().ask("/v1/openapi.json").json()["paths"]
    routes = {f"{method.upper()} {path}" for path, methods in told.items() for method in methods}
    routes |= {f"{route.method} {route.path}" for route in ReaderRoutes(NoReaders()).routes()}
    written = {line.partition("?")[0] for line in re.findall(r"`((?:GET|POST|DELETE) /[^` ]*)`", TEXT)}
    assert {re.sub(r"{cursor}", "ID", re.sub(r"{(view|reader)}", "NAME", route)) for route in routes} <= written


def test_bounds_are_those_of_the_service() -> None:
    limits = SiteLimits()
    text = TEXT.replace("\n", " ")
    assert f"an answer has at most {limits.json_rows:,} rows. In Arrow" in text
    assert limits.answer_bytes == 2**30
    assert limits.target_bytes == 8 * 1024
    assert f"within {limits.request_s:.0f} seconds" in TEXT
    assert f"after {limits.idle_s:.0f} seconds in which no request arrives" in text
