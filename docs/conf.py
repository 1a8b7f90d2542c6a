"""Configuration of the documentation site: `make docs` builds it from the pages of docs/ into build/docs.

The source directory is the root of the repository, so that a relative link means the same on a code host and here: a
link to a page leads to the page, a link to another file of the repository to a copy of the file. Notebooks are stored
without outputs and executed by the build, so that the outputs shown are those of this version; a cell that fails, fails
the build. Outputs are cached in build/docs/notebooks until a notebook changes. Views are not compiled.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
# Importing the packages for autodoc must compile nothing.
os.environ["DELTABOOK_NATIVE"] = "off"

import click  # noqa: E402 (the path comes first)

from deltabook import __version__  # noqa: E402
from deltabook.cli import main  # noqa: E402
from deltabook.notebook import run_backtest, sweep  # noqa: E402

# Autodoc reads default values in the source, where these two have **options; `BacktestOptions` has an entry of its own.
for call in (run_backtest, sweep):
    del call.__signature__  # type: ignore[attr-defined]

project = "Deltabook"
version = release = __version__
html_title = f"Deltabook {release}"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_click",
    # Diagrams are drawn in the reader's browser, by a script that it loads; without a network their source is shown.
    "sphinxcontrib.mermaid",
]

# Pages of other folders keep their place; the pages are read from these places alone, and no other folder is walked.
root_doc = "docs/index"
CODE: Final = ("algo_engine", "deltabook", "exchange_server", "runtime")
PAGES: Final = ("docs", "bench", "examples", "CONTRIBUTING.md")
include_patterns = ["docs/**.md", "bench/README.md", "examples/*.ipynb", "CONTRIBUTING.md"]
exclude_patterns = [path.name for path in ROOT.iterdir() if path.name not in PAGES] + [
    f"bench/{path.name}" for path in (ROOT / "bench").iterdir() if path.is_dir()
]
myst_enable_extensions = ["colon_fence"]
myst_fence_as_directive = ["mermaid"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_cache_path = str(ROOT / "build" / "docs" / "notebooks")
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

# Dashes and quotes stay as they are written: options begin with two of them.
smartquotes = False
# Docstrings put names of code in single quotes; a name that the site has no entry for is plain code.
default_role = "py:obj"
# Blocks without a language are drawings.
highlight_language = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "show-inheritance": True}
add_module_names = False
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_additional_pages = {"index": "redirect.html"}
html_static_path = ["_static"]
html_css_files = ["site.css"]
templates_path = ["_templates"]
html_theme_options = {"navigation_with_keys": True}
html_copy_source = False
html_show_copyright = False
html_show_sourcelink = False


def _fences_to_blocks(_app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Turn the fenced drawings of docstrings into literal blocks of reStructuredText, in place."""
    converted: list[str] = []
    is_fenced = False
    for line in lines:
        if line.strip().startswith("```"):
            is_fenced = not is_fenced
            converted += ["", "::", ""] if is_fenced else [""]
        else:
            converted.append(f"    {line}" if is_fenced else line)
    lines[:] = converted


def _name_commands(group: click.Group, context: click.Context) -> None:
    """Give every command the name that it is called by: those that are loaded lazily have their function's."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None:
            command.name = name
        if isinstance(command, click.Group):
            _name_commands(command, click.Context(command, parent=context, info_name=name))


def _packages() -> list[str]:
    """Return the names of all packages, each behind the one that holds it."""
    folders = (path.parent for top in CODE for path in (ROOT / top).rglob("__init__.py"))
    return sorted(".".join(folder.relative_to(ROOT).parts) for folder in folders)


def _complete_page(_app: Any, page: str, source: list[str]) -> None:
    """Complete the pages that depend on what there is, in place.

    The index loses its notebooks where there are none, since a pattern that matches nothing is an error. The map of the
    packages gets the docstring of each.
    """
    if page == root_doc and not any(ROOT.glob("examples/*.ipynb")):
        source[0] = source[0].replace("../examples/*\n", "")
    if page == "docs/packages":
        source[0] += "".join(
            f"\n## {name}\n\n```{{eval-rst}}\n.. automodule:: {name}\n   :no-members:\n   :no-index:\n```\n"
            for name in _packages()
        )


def _plain_signature(
    _app: Any, _what: str, _name: str, _obj: Any, _options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Shorten the types in the signature of a record: Sphinx leaves it as it is if a default has no expression."""
    if signature and "<factory>" in signature:
        signature = re.sub(r"~(?:\w+\.)+", "", signature).replace("<factory>", "...")
    return signature, returns


def setup(app: Any) -> None:
    """Register what is done to pages and docstrings, and name the commands for sphinx-click."""
    _name_commands(main, click.Context(main, info_name="deltabook"))
    app.connect("source-read", _complete_page)
    app.connect("autodoc-process-signature", _plain_signature)
    app.connect("autodoc-process-docstring", _fences_to_blocks)
