"""One list of checks: pre-commit runs what `make lint` runs."""

from __future__ import annotations

import re
from pathlib import Path

import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[3]


def checks(commands: list[str]) -> set[str]:
    """Commands without the interpreter, and without what only one of the two says: the files, and whether to mend."""
    return {re.sub(r"^(@\$\(PY\)|\.venv/bin/python) |\s--(check|fix)\b|\s\.$", "", command) for command in commands}


def test_pre_commit_runs_what_lint_runs() -> None:
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    lint = [re.sub(r"\s--check\b", "", line) for line in recipe[1].strip().replace("\t", "").splitlines()]
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = [hook["entry"] for repository in config["repos"] for hook in repository["hooks"]]
    assert checks(lint) == checks(hooks)
    assert len(hooks) >= 4
