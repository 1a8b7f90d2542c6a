"""``changelog.py [--check] VERSION``: move the unreleased changes in CHANGELOG.md to the section of a version, dated
today.
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

PATH = Path(__file__).parents[1] / "CHANGELOG.md"
UNRELEASED = "## [Unreleased]\n"


def released(text: str, version: str, day: str) -> str:
    """Return the changelog with a section of the version; raise `ValueError` if there is nothing to release.

    >>> released("# Changelog\\n\\n## [Unreleased]\\n\\n### Added\\n\\n- This.\\n", "1.2.0", "2030-01-02")
    '# Changelog\\n\\n## [Unreleased]\\n\\n## [1.2.0] - 2030-01-02\\n\\n### Added\\n\\n- This.\\n'
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ValueError(f"expected a version MAJOR.MINOR.PATCH, was {version!r}")
    if f"\n## [{version}]" in text:
        raise ValueError(f"expected a version that is not released yet, was {version}: raise deltabook.__version__")
    before, unreleased, after = text.partition(UNRELEASED)
    if not unreleased:
        raise ValueError("expected a section [Unreleased], was none")
    if not re.match(r"\s*### ", after):
        raise ValueError("expected something that is unreleased, was nothing")
    return f"{before}{UNRELEASED}\n## [{version}] - {day}\n{after}"


def main(arguments: list[str]) -> int:
    """Write the changelog, or with ``--check`` only check that there are changes to release; return the exit code."""
    *flags, version = arguments
    try:
        text = released(PATH.read_text(encoding="utf-8"), version, f"{datetime.now(UTC):%Y-%m-%d}")
    except ValueError as error:
        sys.stderr.write(f"changelog: {error}\n")
        return 1
    if "--check" not in flags:
        PATH.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
