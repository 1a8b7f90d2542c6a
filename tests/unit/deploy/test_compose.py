"""The compose file as compose reads it: whole, closed towards the outside, and of settings that the commands have."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from deltabook.cli import main
from deltabook.cli._groups import option_name
from deltabook.cluster.health import PROBES
from deltabook.cluster.secrets import make_secrets
from runtime.native.cache import FOLDER_VARIABLE

DEPLOY = Path(__file__).parents[3] / "deploy"
COMPOSE = Path(sys.executable).with_name("docker-compose")
"""Of the development dependencies: the same program as the engine's plugin."""
PUBLISHED = {"dashboard": "8000", "prometheus": "9090", "spark-history": "18080", "spark-master": "8080"}
"""Service → the one port of it that this machine may reach."""
OURS = ["algo", "dashboard", "exchange", "exchange-b", "runtime", "spark-history", "spark-master", "spark-worker",
        "upstream-a", "upstream-b"]  # fmt: skip
"""Services of the image."""
OTHERS = ["prometheus"]


def compose(*arguments: str, **variables: str) -> str:
    """What compose prints, in an environment without variables of ours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DELTABOOK_")}
    profiles = ["--profile", "*"]
    command = [str(COMPOSE), "-f", str(DEPLOY / "docker-compose.yml"), *profiles, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env={**kept, **variables})
    assert done.returncode == 0, done.stderr
    return done.stdout


@functools.cache
def services() -> dict[str, Any]:
    """Service → everything that holds for it, as JSON."""
    found: dict[str, Any] = json.loads(compose("config", "--format", "json"))["services"]
    return found


def test_the_file_is_valid() -> None:
    assert compose("config", "-q") == ""
    assert sorted(services()) == sorted([*OURS, *OTHERS])


def test_without_profiles_a_run_is_the_loop_and_two_workers() -> None:
    plain = {name for name, service in services().items() if not service.get("profiles")}
    assert plain == {"algo", "dashboard", "exchange", "runtime", "spark-master", "spark-worker"}
    assert services()["spark-worker"]["deploy"]["replicas"] == 2


@pytest.mark.parametrize("name", [*OURS, *OTHERS])
def test_every_service_is_bounded_and_shut_in(name: str) -> None:
    service = services()[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["restart"] == "unless-stopped"
    assert int(service["mem_limit"]) >= 1 << 28
    assert 0 < float(service["cpus"]) <= 2
    assert 256 <= int(service["pids_limit"]) <= 4096
    assert {"max-size", "max-file"} <= set(service["logging"]["options"])
    assert service["healthcheck"]["test"][0] == "CMD"
    assert not service.get("privileged")
    assert all(volume["type"] == "volume" for volume in service.get("volumes", []))


def test_nothing_but_pages_is_published_and_on_loopback_alone() -> None:
    published = {
        name: [(port["host_ip"], str(port["target"])) for port in service["ports"]]
        for name, service in services().items()
        if service.get("ports")
    }
    assert published == {name: [("127.0.0.1", port)] for name, port in PUBLISHED.items()}
    networks = json.loads(compose("config", "--format", "json"))["networks"]
    assert {name: bool(network.get("internal")) for name, network in networks.items()} == {
        "cluster": True,
        "front": False,
    }
    in_front = {name for name, service in services().items() if "front" in service["networks"]}
    assert in_front == set(PUBLISHED)
    assert all("cluster" in service["networks"] for service in services().values())


def test_the_ports_of_this_machine_can_be_chosen() -> None:
    chosen = {f"DELTABOOK_{name}_PORT": "0" for name in ("DASHBOARD", "SPARK_UI", "HISTORY", "PROMETHEUS")}
    found = json.loads(compose("config", "--format", "json", **chosen))["services"]
    assert {port["published"] for service in found.values() for port in service.get("ports", [])} == {"0"}


def test_the_state_is_at_the_same_path_everywhere() -> None:
    places = {
        (name, volume["target"])
        for name, service in services().items()
        for volume in service.get("volumes", [])
        if volume.get("source") == "state"
    }
    assert {target for _, target in places} == {"/var/lib/deltabook"}
    assert {name for name, _ in places} == set(OURS) - {"dashboard"}


def _variables(command: click.Command, prefix: str) -> Iterator[str]:
    """Those that an option of the command is read from."""
    for parameter in command.params:
        name = option_name(parameter) if isinstance(parameter, click.Option) else str(parameter.name)
        yield f"{prefix}_{name.replace('-', '_').upper()}"
        given = parameter.envvar
        yield from [given] if isinstance(given, str) else given or ()


def _command(words: list[str]) -> tuple[click.Command, str]:
    """The command that a service's words name, and what its variables begin with."""
    found: click.Command = main
    prefix = "DELTABOOK"
    for word in words:
        inner = found.get_command(click.Context(found), word) if isinstance(found, click.Group) else None
        if inner is None:
            break
        found, prefix = inner, f"{prefix}_{word.upper()}"
    if isinstance(found, click.Group):
        inner = found.get_command(click.Context(found), str(getattr(found, "default", "")))
        assert inner is not None, words
        found = inner
    return found, prefix


CLIENTS = (["query", "show"], ["reader", "list"], ["algo", "status"], ["exchange", "status"], ["health"])
"""What is run in a service's container by hand, and by its health check."""


@pytest.mark.parametrize("name", OURS)
def test_every_setting_is_an_option(name: str) -> None:
    service = services()[name]
    known = {*_variables(main, "DELTABOOK"), FOLDER_VARIABLE}
    for words in (service["command"], *CLIENTS):
        known |= set(_variables(*_command(words)))
    ours = {variable for variable in service["environment"] if variable.startswith("DELTABOOK_")}
    assert ours <= known
    assert service["environment"]["DELTABOOK_HEALTH_ROLE"] in PROBES


@pytest.mark.parametrize("name", [*OURS, *OTHERS])
def test_a_container_has_the_secrets_that_its_settings_name(name: str, tmp_path: Path) -> None:
    service = services()[name]
    given = {secret["source"] for secret in service.get("secrets", [])}
    named = {
        value.removeprefix("/run/secrets/")
        for value in (service["environment"] or {}).values()
        if str(value).startswith("/run/secrets/")
    } if name in OURS else given  # fmt: skip
    assert given == named
    made = {*make_secrets(tmp_path).made}
    assert given <= made - {"ca.key"}


def test_no_variable_holds_a_secret() -> None:
    for name, service in services().items():
        for variable, value in (service.get("environment") or {}).items():
            if any(word in variable for word in ("TOKEN", "SECRET", "TLS_KEY")):
                assert str(value).startswith("/run/secrets/"), f"{name}: {variable}"
