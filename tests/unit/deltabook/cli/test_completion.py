"""Completion is written where a shell reads it, once."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from deltabook.cli import main
from deltabook.cli._completion import install_completion


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_script_is_read_by_the_next_shell(tmp_path: Path, shell: str) -> None:
    start = tmp_path / f".{shell}rc"
    start.write_text("alias ll='ls -l'")  # without an end of line
    script = tmp_path / ".local" / "share" / "deltabook" / f"completion.{shell}"
    environ = {"HOME": str(tmp_path)}
    assert install_completion(main, shell, environ) == [script, start]
    assert start.read_text() == f"alias ll='ls -l'\n. \"{script}\"  # completion of deltabook\n"
    assert f"_DELTABOOK_COMPLETE={shell}_complete" in script.read_text()
    assert install_completion(main, shell, environ) == [script], "the line is there already"
    assert start.read_text().count("completion of deltabook") == 1


def test_fish_reads_its_own_folder(tmp_path: Path) -> None:
    script = tmp_path / ".config" / "fish" / "completions" / "deltabook.fish"
    assert install_completion(main, "fish", {"HOME": str(tmp_path)}) == [script]
    assert "_DELTABOOK_COMPLETE=fish_complete" in script.read_text()


def test_the_option_finds_the_shell_and_writes_for_it(tmp_path: Path) -> None:
    environ = {"SHELL": "/usr/bin/zsh", "HOME": str(tmp_path), "XDG_DATA_HOME": "", "XDG_CONFIG_HOME": ""}
    done = CliRunner().invoke(main, ["--install-completion"], env=environ)
    assert done.exit_code == 0
    assert done.output.splitlines()[-1] == "completion works in the next zsh that you start"
    assert (tmp_path / ".zshrc").exists()
    refused = CliRunner().invoke(main, ["--install-completion"], env={**environ, "SHELL": "/bin/tcsh"})
    assert (refused.exit_code, "expected bash, zsh or fish as $SHELL, was 'tcsh'" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "begun", "found"),
    [
        ([], "ru", {"runtime"}),
        (["algo"], "st", {"status"}),
        (["demo"], "--cha", {"--chaos"}),
        (["new"], "", {"strategy", "view"}),
    ],
)
def test_commands_and_options_are_completed(words: list[str], begun: str, found: set[str]) -> None:
    """Sub-commands that are loaded when they are named are known all the same."""
    complete = ShellComplete(main, {}, "deltabook", "_DELTABOOK_COMPLETE")
    assert {item.value for item in complete.get_completions(words, begun)} == found
