"""What a release is made of: a changelog with a section for it, typed packages, a description without dead links."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltabook import __version__

ROOT = Path(__file__).parents[3]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def _released() -> Callable[[str, str, str], str]:
    spec = importlib.util.spec_from_file_location("changelog", ROOT / "scripts" / "changelog.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    released: Callable[[str, str, str], str] = module.released
    return released


released = _released()
TEXT = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- This.\n\n## [0.1.0] - 2030-01-01\n\n### Added\n\n- That.\n"


def test_what_is_unreleased_becomes_the_section_of_the_version() -> None:
    text = released(TEXT, "0.2.0", "2030-02-01")
    assert text.startswith(
        "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2030-02-01\n\n### Added\n\n- This.\n\n## [0.1.0]"
    )
    assert text.endswith("## [0.1.0] - 2030-01-01\n\n### Added\n\n- That.\n")


@pytest.mark.parametrize(
    ("text", "version", "reason"),
    [
        (TEXT, "0.1.0", "expected a version that is not released yet, was 0.1.0"),
        (TEXT, "0.2", "expected a version MAJOR.MINOR.PATCH, was '0.2'"),
        (TEXT.replace("[Unreleased]", "[Next]"), "0.2.0", "expected a section"),
        (released(TEXT, "0.2.0", "2030-02-01"), "0.3.0", "expected something that is unreleased, was nothing"),
    ],
)
def test_what_cannot_be_released_is_refused(text: str, version: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        released(text, version, "2030-02-01")


def test_this_version_is_one_that_could_be_released_or_was() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## [{__version__}] - " in text or released(text, __version__, "2030-02-01")


def test_every_package_says_that_it_is_typed() -> None:
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert len(packages) >= 5
    assert [package for package in packages if not (ROOT / package / "py.typed").is_file()] == []


def test_the_description_of_the_index_has_no_dead_link() -> None:
    """The index shows it beside no other file of the project."""
    text = (ROOT / PROJECT["project"]["readme"]).read_text(encoding="utf-8")
    links = [*re.findall(r"\]\(([^)]+)\)", text), *re.findall(r"(?:src|href)=\"([^\"]+)\"", text)]
    assert [link for link in links if not link.startswith("https://")] == []
    assert "deltabook demo" in text


def test_the_extras_that_messages_name_are_there() -> None:
    assert {"spark", "java"} <= PROJECT["project"]["optional-dependencies"].keys()
