"""The description says of every route what the site does."""

from __future__ import annotations

from typing import Any

import pytest

from deltabook.wire.access import Access
from deltabook.wire.readers import ChangedReader, NewReader, Readers
from runtime.service.catalogue import Control
from runtime.service.http.limits import SiteLimits
from runtime.service.http.openapi import described
from runtime.service.http.readers import ReaderRoutes
from runtime.service.http.routes import JSON, Answer, Reply, Route, Routes
from tests.generators.results_lab import ResultsLab
from tests.unit.runtime.service.catalogue.test_catalogue import Lab


@pytest.fixture(scope="module")
def lab() -> ResultsLab:
    found = ResultsLab()
    return ResultsLab(found.hub, Control(found.hub, Lab().catalogue))


def operations(told: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(path, method, one) for path, methods in told["paths"].items() for method, one in methods.items()]


def test_operations_have_unique_names_and_described_answers(lab: ResultsLab) -> None:
    told = lab.ask("/v1/openapi.json").json()
    assert told["openapi"] == "3.1.0"
    found = operations(told)
    assert len({one["operationId"] for _, _, one in found}) == len(found)
    for _, _, one in found:
        assert one["summary"].endswith(".")
        assert {"400", "401", "403", "405", "414", "429", "500", "503"} <= one["responses"].keys()
        assert all(answer["description"] for answer in one["responses"].values())
        assert all(parameter["description"] for parameter in one["parameters"])


def test_all_references_lead_somewhere(lab: ResultsLab) -> None:
    told = lab.ask("/v1/openapi.json").json()

    def references(node: Any) -> list[str]:
        if isinstance(node, dict):
            own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
            return own + [one for value in node.values() for one in references(value)]
        return [one for value in node for one in references(value)] if isinstance(node, list) else []

    names = {reference.removeprefix("#/components/schemas/") for reference in references(told)}
    assert names
    assert names <= told["components"]["schemas"].keys()
    ids = {one["operationId"] for _, _, one in operations(told)}
    links = [links for _, _, one in operations(told) for answer in one["responses"].values()
             for links in answer.get("links", {}).values()]  # fmt: skip
    assert {link["operationId"] for link in links} <= ids
    assert len(links) == 6


def test_what_is_described_is_what_the_site_does(lab: ResultsLab) -> None:
    told = lab.ask("/v1/openapi.json").json()
    for path, methods in told["paths"].items():
        concrete = path.replace("{view}", "m").replace("{cursor}", "1-x")
        allowed = lab.ask(concrete, "OPTIONS").headers["allow"].split(", ")
        assert {method.lower() for method in allowed} - {"head", "options"} == methods.keys()


def test_examples_are_accepted(lab: ResultsLab) -> None:
    told = lab.ask("/v1/openapi.json").json()
    example = told["paths"]["/v1/views/{view}/cursor"]["post"]["requestBody"]["content"][JSON]["example"]
    assert example == {"rows": 500, "is_sorted": True}


def test_parameters_have_bounds_and_defaults(lab: ResultsLab) -> None:
    told = lab.ask("/v1/openapi.json").json()
    page, integers = told["paths"]["/v1/cursors/{cursor}"]["get"]["parameters"][1:]
    assert (page["required"], page["schema"]["default"]) == (False, "next")
    assert integers["schema"] == {"enum": ["number", "string"], "default": "number"}


def test_the_token_is_asked_for_where_there_is_one(lab: ResultsLab) -> None:
    assert lab.ask("/v1/openapi.json").json()["security"] == []
    asked = ResultsLab(access=Access("0123456789abcdef"))
    told = asked.ask("/v1/openapi.json", headers="Authorization: Bearer 0123456789abcdef\r\n").json()
    assert told["security"] == [{"token": []}]
    assert told["components"]["securitySchemes"]["token"] == {"type": "http", "scheme": "bearer"}


def test_a_route_is_there_once() -> None:
    one = Route("GET", "/v1/x", "x", "X.", (Answer(200, "x"),), lambda _: Reply(200, b""))
    with pytest.raises(ValueError, match="expected one route a method, was a second GET /v1/x"):
        Routes([one, one])


class NoReaders:
    """Readers of a runtime that has none."""

    def list(self) -> Readers:
        return Readers(())

    async def add(self, wanted: NewReader) -> tuple[int, ChangedReader]:
        raise LookupError(wanted.name)

    async def drop(self, name: str, timeout_s: float, rows: str = "leave") -> tuple[int, ChangedReader]:
        raise LookupError(name, timeout_s, rows)


def test_readers_are_described_where_there_are_any() -> None:
    told = described(Routes(ReaderRoutes(NoReaders()).routes()), SiteLimits(), has_token=False)
    assert [(path, method) for path, method, _ in operations(told)] == [
        ("/v1/readers", "get"),
        ("/v1/readers", "post"),
        ("/v1/readers/{reader}", "delete"),
    ]
    assert "NewReader" in told["components"]["schemas"]
