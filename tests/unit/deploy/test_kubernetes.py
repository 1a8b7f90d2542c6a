"""The example for Kubernetes: what its own schema says, and that everything that is named is there.

No cluster is asked: the schema is that of Kubernetes 1.34, strict, for the kinds that are used.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import jsonschema_rs
import pytest
import yaml  # type: ignore[import-untyped]

from deltabook.cli._groups import option_name
from deltabook.cli._root import COMMANDS
from deltabook.cluster.daemons import executor_launch
from deltabook.cluster.secrets import CERTIFICATES, TOKENS
from runtime.native.cache import FOLDER_VARIABLE

ROOT: Final = Path(__file__).parents[3]
FOLDER: Final = ROOT / "deploy" / "kubernetes"
SCHEMA: Final = json.loads((ROOT / "tests" / "data" / "kubernetes-1.34.schema.json").read_text())
SECRET_FILES: Final = {*TOKENS, "ca.pem", *(f"{name}.{end}" for name in CERTIFICATES for end in ("pem", "key"))}
"""What `deltabook cluster secrets` makes, of which the README makes the secret ``deltabook``."""
Document = dict[str, Any]


def read() -> list[Document]:
    """All documents of all files."""
    return [each for path in sorted(FOLDER.glob("*.yaml")) for each in yaml.safe_load_all(path.read_text())]


ALL: Final = read()
TEMPLATE: Final[Document] = yaml.safe_load(
    next(each for each in ALL if each["kind"] == "ConfigMap")["data"]["pod.yaml"]
)
"""Of executors."""


def of_kind(kind: str) -> dict[str, Document]:
    """Name → document."""
    return {each["metadata"]["name"]: each for each in ALL if each["kind"] == kind}


def pods() -> dict[str, Document]:
    """``app`` → what a pod of it is: labels and specification."""
    templates = [each["spec"]["template"] for each in ALL if each["kind"] == "Deployment"]
    return {each["metadata"]["labels"]["app"]: each for each in [*templates, TEMPLATE]}


PODS: Final = pods()


def schema_of(document: Document) -> Document:
    """The schema of a document's kind, which must be one that is there."""
    kind = next(
        name
        for name, definition in SCHEMA["$defs"].items()
        if definition.get("properties", {}).get("kind", {}).get("enum") == [document["kind"]]
        and definition["properties"]["apiVersion"]["enum"] == [document["apiVersion"]]
    )
    return {"$defs": SCHEMA["$defs"], "$ref": f"#/$defs/{kind}"}


def named(document: Document) -> str:
    return f"{document['kind']}-{document['metadata'].get('name', 'executor')}"


@pytest.mark.parametrize("document", [*ALL, TEMPLATE], ids=named)
def test_every_document_is_what_kubernetes_takes(document: Document) -> None:
    errors = [
        f"{'/'.join(map(str, error.instance_path))}: {error.message}"
        for error in jsonschema_rs.validator_for(schema_of(document)).iter_errors(document)
    ]
    assert errors == []
    if document["kind"] not in {"Namespace", "Pod"}:
        assert document["metadata"]["namespace"] == "deltabook"


def test_the_schema_finds_what_is_wrong() -> None:
    (service,) = (each for each in ALL if named(each) == "Service-runtime")
    for broken in ({**service, "spek": {}}, {**service, "spec": {**service["spec"], "ports": [{"port": "x"}]}}):
        assert not jsonschema_rs.is_valid(schema_of(service), broken)


def containers(spec: Document) -> Iterator[Document]:
    yield from spec["containers"]
    yield from spec.get("initContainers", [])


@pytest.mark.parametrize("app", sorted(PODS))
def test_what_a_pod_names_is_there(app: str) -> None:
    spec = PODS[app]["spec"]
    assert spec.get("serviceAccountName", "plain") in of_kind("ServiceAccount")
    for volume in spec["volumes"]:
        if claim := volume.get("persistentVolumeClaim"):
            assert claim["claimName"] in of_kind("PersistentVolumeClaim")
        if config := volume.get("configMap"):
            assert config["name"] in of_kind("ConfigMap")
        if secret := volume.get("secret"):
            assert secret["secretName"] == "deltabook"
            assert {item["key"] for item in secret["items"]} <= SECRET_FILES
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    for container in containers(spec):
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes.keys()


@pytest.mark.parametrize("app", sorted(PODS))
def test_every_secret_file_that_is_named_is_mounted(app: str) -> None:
    spec = PODS[app]["spec"]
    given = {
        f"/run/secrets/deltabook/{item['path']}"
        for volume in spec["volumes"]
        if "secret" in volume
        for item in volume["secret"]["items"]
    }
    wanted = {
        value
        for container in containers(spec)
        for text in [*(each.get("value", "") for each in container.get("env", [])), *container.get("args", [])]
        for value in [text.rpartition("=")[2]]
        if value.startswith("/run/secrets/")
    }
    # The runtime's secret of Spark is read by its executors under the same path.
    assert wanted == given or app == "executor"


@pytest.mark.parametrize("app", sorted(PODS))
def test_a_pod_can_do_no_more_than_it_must(app: str) -> None:
    spec = PODS[app]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["enableServiceLinks"] is False
    for container in containers(spec):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        if app != "executor":  # whose image and resources Spark sets
            assert container["resources"].keys() == {"requests", "limits"}
            assert container["readinessProbe"]["exec"]["command"] == ["deltabook", "health"]
            assert ":" in container["image"]


def test_only_the_driver_may_ask_kubernetes() -> None:
    tokens = {app: pod["spec"].get("automountServiceAccountToken", False) for app, pod in PODS.items()}
    assert tokens.pop("runtime") is True
    assert set(tokens.values()) == {False}
    assert all(each["automountServiceAccountToken"] is False for each in of_kind("ServiceAccount").values())
    (binding,) = of_kind("RoleBinding").values()
    assert binding["roleRef"]["name"] in of_kind("Role")
    assert [subject["name"] for subject in binding["subjects"]] == ["runtime"]


def test_every_service_leads_to_ports_of_its_pods() -> None:
    for service in of_kind("Service").values():
        pod = PODS[service["spec"]["selector"]["app"]]
        ports = {port["name"]: port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
        for port in service["spec"]["ports"]:
            assert ports[port["targetPort"]] == port["port"]
    for deployment in of_kind("Deployment").values():
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()


def apps(selector: Document) -> list[str]:
    """Whom a selector of pods names."""
    for expression in selector.get("matchExpressions", []):
        return list(expression["values"])
    return [selector["matchLabels"]["app"]] if "matchLabels" in selector else sorted(PODS)


def ways(direction: str, end: str) -> set[tuple[str, str, int]]:
    """(from, to, port) that the policies allow in one direction, between pods of ours."""
    found = set()
    for policy in of_kind("NetworkPolicy").values():
        for own in apps(policy["spec"]["podSelector"]):
            for rule in policy["spec"].get(direction, []):
                for other in (
                    name for peer in rule[end] if "podSelector" in peer for name in apps(peer["podSelector"])
                ):
                    for port in rule["ports"]:
                        pair = (own, other) if direction == "egress" else (other, own)
                        found.add((*pair, port["port"]))
    return found


def test_what_may_go_out_may_come_in_and_all_of_it_is_served() -> None:
    out, into = ways("egress", "to"), ways("ingress", "from")
    assert out <= into
    assert {(*pair, port) for *pair, port in into - out} <= {("algo", "exchange", 4712)}
    executors = {("executor", 7003)}
    served = {
        (app, port["containerPort"])
        for app, pod in PODS.items()
        for container in containers(pod["spec"])
        for port in container.get("ports", [])
    }
    assert {(to, port) for _, to, port in into} <= served | executors
    assert of_kind("NetworkPolicy")["nothing-else"]["spec"]["podSelector"] == {}


def called(pod: Document) -> tuple[list[str], click.Command, list[str]]:
    """The names of the command that a pod runs, the command, and its arguments."""
    first, *rest = pod["spec"]["containers"][0]["args"]
    assert first in COMMANDS
    command: click.Command = importlib.import_module(f"deltabook.cli.{first}").command
    names = [first]
    context = click.Context(command)
    while isinstance(command, click.Group):
        # A group that stands for one of its commands lends it its name.
        name = rest.pop(0) if rest and not rest[0].startswith("-") else ""
        names += [name] if name else []
        found = command.get_command(context, name or getattr(command, "default", ""))
        assert found is not None
        command = found
    return names, command, rest


def variable(prefix: str, parameter: click.Parameter) -> str:
    """The variable of the environment that a parameter is read from."""
    name = option_name(parameter) if isinstance(parameter, click.Option) else str(parameter.name)
    return f"{prefix}_{name.replace('-', '_').upper()}"


@pytest.mark.parametrize("app", sorted(PODS.keys() - {"executor"}))
def test_every_option_is_one_of_the_command(app: str) -> None:
    names, command, arguments = called(PODS[app])
    given = {each["name"] for each in PODS[app]["spec"]["containers"][0]["env"]} - {"POD"}
    prefix = "_".join(["DELTABOOK", *names]).upper()
    health = importlib.import_module("deltabook.cli.health").command
    known = {variable(prefix, parameter) for parameter in command.params}
    known |= {variable("DELTABOOK_HEALTH", parameter) for parameter in health.params}
    known |= {"DELTABOOK_LOG_FORMAT", FOLDER_VARIABLE}
    assert given <= known
    options = {option for parameter in command.params for option in parameter.opts}
    assert {text.partition("=")[0] for text in arguments if text.startswith("--")} <= options


def test_an_executor_of_the_template_becomes_sparks(tmp_path: Path) -> None:
    container = TEMPLATE["spec"]["containers"][0]
    assert container["command"][-2:] == ["deltabook", "cluster"]
    _, command, _ = called({"spec": {"containers": [{"args": ["cluster", "executor"]}]}})
    assert command.name == "executor"
    names = ["DRIVER_URL", "APPLICATION_ID", "RESOURCE_PROFILE_ID"]
    names += [f"EXECUTOR_{name}" for name in ("ID", "CORES", "MEMORY", "POD_IP", "POD_NAME")]
    pod = {f"SPARK_{name}": "1" for name in names}
    assert "KubernetesExecutorBackend" in " ".join(executor_launch({**os.environ, **pod}, tmp_path).command)
