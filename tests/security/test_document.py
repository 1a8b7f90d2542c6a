"""The page on security names tests that there are, and every port that is opened."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from deltabook.cli import main
from runtime.compiler import limits
from runtime.formats.codecs import Codec
from runtime.formats.schema import Limits
from runtime.service.http.limits import SiteLimits
from runtime.service.sandbox import AskLimits
from runtime.views.nodes.recompute import EVALUATION_S

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


def test_the_page_names_tests() -> None:
    assert len(NAMED) > 40
    assert PAGE.count("::test_") == len(re.findall(r"`tests/[\w/]+\.py::test_\w+`", PAGE))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_every_test_that_is_named_is_there(file: str, name: str) -> None:
    assert re.search(rf"^ *def {name}\(", (ROOT / file).read_text(), re.MULTILINE), f"expected {name} in {file}"


def test_every_threat_has_a_test() -> None:
    threats = PAGE.partition("## Threats")[2].partition("## Dependencies")[0]
    rows = [line for line in threats.splitlines() if line.startswith("| ") and "| attack |" not in line]
    assert rows
    assert [row for row in rows if "::test_" not in row] == []


@pytest.mark.parametrize(
    ("command", "ports"),
    [
        (["exchange", "run"], 6),
        (["runtime"], 3),
        (["algo", "run"], 1),
        (["dashboard"], 1),
    ],
)
def test_every_option_that_opens_a_port_is_on_the_page(command: list[str], ports: int) -> None:
    help_ = CliRunner().invoke(main, [*command, "--help"]).output
    options = set(re.findall(r"^ +(--(?:[a-z]+-)?port)\b", help_, re.MULTILINE))
    assert len(options) == ports
    assert [option for option in sorted(options) if f"{option}`" not in PAGE] == []


def test_the_limits_on_the_page_are_those_of_the_code() -> None:
    site, ask, codec, tuples = SiteLimits(), AskLimits(), Codec("gzip"), Limits()
    for words in (
        f"{site.connections:,} connections, {site.connections_per_client:,} from one address",
        f"{site.requests_per_s:,.0f} requests a second from one address",
        f"{site.request_s:.0f} s for a request from its first byte",
        f"bodies of {site.body_bytes >> 20} MiB, {site.bodies_bytes >> 20} MiB in all",
        f"{ask.seconds:.0f} s, after which its process is killed; {ask.memory_bytes >> 20} MiB; two questions",
        f"two questions at a time, and {ask.waiting} that wait",
        f"its process may grow by {ask.growth_bytes >> 30} GiB of address space",
        f"{EVALUATION_S:.0f} s for an evaluation",
        f"multiplied, are at most {limits.MOST_EXPANDED:,};",
        f"a count that comes from a row is at most {limits.MOST_COUNT:,}",
        f"{codec.limit_bytes >> 20} MiB a buffer, a ratio of {codec.most_ratio:,}",
        f"{tuples.tuple_bytes >> 10} KiB a tuple, {tuples.nesting} levels",
    ):
        assert words in PAGE
    assert ask.at_once == 2
