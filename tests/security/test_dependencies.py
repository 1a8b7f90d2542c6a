"""Packages are those that were looked at: one version each, with the hashes of its files, from no particular place."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements.lock", "requirements-image.lock", "requirements-java.lock")


def requirements(lock: str) -> dict[str, tuple[str, list[str]]]:
    """Package → its version and hashes; asserts that every line is one of them."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / lock).read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found: dict[str, tuple[str, list[str]]] = {}
    for line in filter(str.strip, text.splitlines()):
        match = re.fullmatch(r"([a-z0-9][a-z0-9._-]*)==(\S+)(?: *; [^#]*?)?((?: +--hash=sha256:[0-9a-f]{64})*) *", line)
        assert match, f"expected NAME==VERSION --hash=sha256:… in {lock}, was {line[:200]!r}"
        assert match[1] not in found, f"{match[1]} stands twice in {lock}"
        found[match[1]] = match[2], match[3].split()
    return found


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_has_one_version_and_hashes(lock: str) -> None:
    found = requirements(lock)
    assert found
    assert [name for name, (_, hashes) in found.items() if not hashes] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_place(lock: str) -> None:
    """An index, a host or a folder in a lock would decide where packages come from."""
    text = (ROOT / lock).read_text()
    assert not re.search(
        r"://|^\s*-(i|f|e)\b|--(extra-)?index|--find-links|--trusted-host|--no-verify| @ |git\+", text, re.MULTILINE
    )


def test_the_image_has_the_versions_that_are_developed_with() -> None:
    own, image = requirements("requirements.lock"), requirements("requirements-image.lock")
    assert {name: version for name, (version, _) in image.items() if name in own and own[name][0] != version} == {}


def test_every_dependency_of_the_project_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [*project["dependencies"], *(each for part in project["optional-dependencies"].values() for each in part)]
    names = {re.sub(r"[._]", "-", name) for name in (re.split(r"[\s\[<>=!~;]", each)[0].lower() for each in named)} - {
        project["name"]
    }
    locked = requirements("requirements.lock").keys() | requirements("requirements-java.lock").keys()
    assert names - locked == set()


def test_what_is_installed_has_the_versions_of_the_lock() -> None:
    """A package that somebody has put in the place of another one shows here."""
    locked = requirements("requirements.lock")
    installed = {each.metadata["Name"].lower().replace("_", "-"): each.version for each in metadata.distributions()}
    differ = {name: installed[name] for name, (version, _) in locked.items() if installed.get(name, version) != version}
    assert differ == {}


def test_packages_are_installed_with_their_hashes_alone() -> None:
    scripts = ("scripts/setup.sh", "deploy/image/packages.sh")
    lines = [line for name in scripts for line in (ROOT / name).read_text().splitlines()]
    installs = [line for line in lines if re.search(r"install\b.*(--requirement|-r )", line)]
    assert len(installs) >= 4
    assert [line for line in installs if "--require-hashes" not in line] == []
