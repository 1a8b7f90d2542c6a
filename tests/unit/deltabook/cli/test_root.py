"""The root command: lazy sub-commands, one line an error, and the order in which options take their values.

Completion is written where a shell reads it, once.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from deltabook import __version__
from deltabook.cli import COMMANDS, main
from deltabook.cli._options import given_run_id
from deltabook.cli._root import install_completion, one_line

Invoke = Callable[..., Result]


@click.group("exchange")
def exchange() -> None:
    """A stand-in with an option, a repeated option and a command of its own."""


@exchange.command("serve")
@click.option("--http-port", type=int, default=1)
@click.option("--view", multiple=True)
@click.option("--error")
def serve(http_port: int, view: tuple[str, ...], error: str | None) -> None:
    """Say what the options are, or fail as told."""
    if error == "value":
        raise ValueError("expected a port,\n  was none")
    if error == "key":
        raise KeyError("bids")
    if error == "run":
        raise ValueError(f"run id {given_run_id()}")
    click.echo(f"{http_port} {','.join(view)}")


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Invoke:
    module = ModuleType("deltabook.cli.exchange")
    module.command = exchange  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "deltabook.cli.exchange", module)

    def run(*arguments: str, toml: str | None = None, env: dict[str, str] | None = None) -> Result:
        options: list[str] = []
        if toml is not None:
            (tmp_path / "deltabook.toml").write_text(toml)
            options = ["--config", str(tmp_path / "deltabook.toml")]
        monkeypatch.setattr(sys, "argv", ["deltabook", *options, *arguments])
        return CliRunner().invoke(main, [*options, *arguments], env=env)

    return run


def test_help_names_every_command_without_importing_any() -> None:
    code = "import sys; from deltabook.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    code += "print('deltabook.cli.doctor' in sys.modules or 'pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
    assert all(f"  {name} " in done.stdout for name in COMMANDS)


def test_version_is_the_packages(invoke: Invoke) -> None:
    assert __version__ in invoke("--version").output


@pytest.mark.parametrize(
    ("flags", "env", "toml", "expected"),
    [
        ([], {}, None, "1 \n"),
        ([], {}, "[exchange.serve]\nhttp-port = 2\n", "2 \n"),
        ([], {}, "[exchange.serve]\nhttp_port = 2\nview = ['a', 'b']\n", "2 a,b\n"),
        ([], {}, "[exchange.serve]\nview = 'a'\n", "1 a\n"),
        ([], {"DELTABOOK_EXCHANGE_SERVE_HTTP_PORT": "3"}, "[exchange.serve]\nhttp-port = 2\n", "3 \n"),
        (
            ["--http-port", "4"],
            {"DELTABOOK_EXCHANGE_SERVE_HTTP_PORT": "3"},
            "[exchange.serve]\nhttp-port = 2\n",
            "4 \n",
        ),
    ],
)
def test_a_flag_wins_over_environment_file_and_default(
    invoke: Invoke, flags: list[str], env: dict[str, str], toml: str | None, expected: str
) -> None:
    result = invoke("exchange", "serve", *flags, toml=toml, env=env)
    assert result.output == expected
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("toml", "named"),
    [
        ("[exchange.serve]\nprot = 1\n", "'exchange.serve.prot'"),
        ("[exchange]\nprot = 1\n", "'exchange.prot'"),
        ("[exchnage]\nport = 1\n", "'exchnage'"),
        ("verbose = true\n", "'verbose'"),
        ("config = 'other.toml'\n", "'config'"),
        ("[exchange.serve.http-port]\nx = 1\n", "'exchange.serve.http-port'"),
        ("[exchange.serve]\nhttp-port = true\n", "'exchange.serve.http-port', was 'True'"),
        ("[exchange.serve]\nhttp-port = [2]\n", "'exchange.serve.http-port', was '[2]'"),
        ("[exchange.serve]\nhttp-port = 1979-05-27\n", "'exchange.serve.http-port', was '1979-05-27'"),
        ("[exchange.serve]\nview = ['a', ['b']]\n", "'exchange.serve.view'"),
    ],
)
def test_a_wrong_key_or_value_is_an_error_that_names_it(invoke: Invoke, toml: str, named: str) -> None:
    result = invoke("exchange", "serve", toml=toml)
    assert result.exit_code == 2
    assert result.output.startswith("deltabook: error: ")
    assert named in result.output
    assert "deltabook.toml" in result.output
    assert result.output.count("\n") == 1


def test_a_number_of_the_file_is_not_rounded(invoke: Invoke) -> None:
    result = invoke("exchange", "serve", toml="[exchange.serve]\nhttp-port = 1.5\n")
    assert result.exit_code == 2
    assert "'1.5' is not a valid integer" in result.output


@pytest.mark.parametrize("toml", ["[exchange", "\udcff"])
def test_a_file_that_is_not_toml_is_an_error_that_names_it(invoke: Invoke, tmp_path: Path, toml: str) -> None:
    path = tmp_path / "broken.toml"
    path.write_bytes(toml.encode(errors="surrogateescape"))
    result = invoke("--config", str(path), "exchange", "serve")
    assert result.exit_code == 2
    assert result.output.startswith(f"deltabook: error: {path}: ")


def test_a_file_that_is_not_there_is_an_error(invoke: Invoke) -> None:
    result = invoke("--config", "nowhere.toml", "exchange", "serve")
    hint = "(`deltabook --help` lists commands and options)"
    said = f"deltabook: error: nowhere.toml: No such file or directory {hint}\n"
    assert (result.exit_code, result.output) == (2, said)


def test_an_error_of_the_system_names_the_file_without_a_number(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        (tmp_path / "gone").read_bytes()
    assert one_line(caught.value) == f"expected to use {tmp_path / 'gone'}, was No such file or directory"
    assert one_line(FileNotFoundError("expected a, was b")) == "expected a, was b"
    assert one_line(OSError(28, "No space left on device")) == "[Errno 28] No space left on device"


def test_an_expected_error_is_one_line(invoke: Invoke) -> None:
    result = invoke("exchange", "serve", "--error", "value")
    assert (result.exit_code, result.output) == (1, "deltabook exchange: failed: expected a port, was none\n")


def test_an_error_shows_bytes_as_escapes() -> None:
    """A terminal would interpret them."""
    assert one_line(ValueError("was a\x00b\x1b[2J\udcff\nc")) == r"was a\x00b\x1b[2J\udcff c"


def test_an_unexpected_error_is_one_line_that_names_debug(invoke: Invoke) -> None:
    result = invoke("exchange", "serve", "--error", "key")
    assert result.output == "deltabook exchange: failed: unexpected KeyError: 'bids' (--debug shows where)\n"


@pytest.mark.parametrize(
    ("flags", "env", "toml"),
    [(["--debug"], {}, None), ([], {"DELTABOOK_DEBUG": "1"}, None), ([], {}, "debug = true\n")],
)
def test_debug_shows_the_traceback(invoke: Invoke, flags: list[str], env: dict[str, str], toml: str | None) -> None:
    """Wherever the option takes its value from."""
    result = invoke(*flags, "exchange", "serve", "--error", "value", toml=toml, env=env)
    assert result.exit_code == 1
    assert "Traceback (most recent call last)" in result.output
    assert result.output.splitlines()[-1] == "deltabook exchange: failed: expected a port, was none"


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        ("[exchange]\nresults = 'a:1'\n", "expected a command's table, was 'exchange.results'"),
        ("[exchange.serve]\nx = 1\n", "expected one of error, http-port, view, was 'exchange.serve.x'"),
    ],
)
def test_a_key_is_compared_with_what_its_table_may_have(invoke: Invoke, toml: str, expected: str) -> None:
    """The group of this test has no options, and its command has no commands."""
    assert expected in invoke("exchange", "serve", toml=toml).stderr


@pytest.mark.parametrize("arguments", [["nonsense"], ["exchange", "serve", "--nonsense"], ["--nonsense"]])
def test_a_wrong_command_line_is_one_line(invoke: Invoke, arguments: list[str]) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert result.output.startswith("deltabook: error: ")
    assert result.output.count("\n") == 1


def test_without_a_command_the_help_is_shown(invoke: Invoke) -> None:
    result = invoke()
    assert result.exit_code == 2
    assert "Commands:" in result.output


@pytest.mark.parametrize("words", [("exchange", "run"), ("algo", "run"), ("dashboard",), ("reader", "add")])
def test_help_says_no_default_that_is_nothing(words: tuple[str, ...]) -> None:
    said = CliRunner().invoke(main, [*words, "--help"]).output
    assert "--help" in said
    assert '[default: ""]' not in said


@pytest.mark.parametrize("source", ["option", "environment", "file"])
def test_all_that_is_started_together_has_one_name(invoke: Invoke, source: str) -> None:
    option = ("--run-id", "loop-7") if source == "option" else ()
    toml = 'run-id = "loop-7"' if source == "file" else None
    env = {"DELTABOOK_RUN_ID": "loop-7"} if source == "environment" else None
    result = invoke(*option, "exchange", "serve", "--error", "run", toml=toml, env=env)
    assert "run id loop-7" in result.output


def test_a_lone_process_names_itself_uniquely(invoke: Invoke) -> None:
    told = {invoke("exchange", "serve", "--error", "run").output for _ in range(2)}
    assert len(told) == 2
    assert all(re.search(r"run id \d{8}-\d{6}-[0-9a-f]{4}", each) for each in told)


@pytest.mark.parametrize("run_id", ["a b", "x" * 65, '"', "a/b"])
def test_a_run_id_that_would_break_a_line_or_a_path_is_refused(invoke: Invoke, run_id: str) -> None:
    result = invoke("--run-id", run_id, "exchange", "serve")
    assert (result.exit_code, "expected a run id" in result.output) == (2, True)


def test_an_argument_that_is_not_utf8_is_named() -> None:
    """The shell hands on the bytes of an old file's name; Python keeps each as a surrogate."""
    with pytest.raises(UnicodeEncodeError) as caught:
        "caf\udce9.csv".encode()
    assert one_line(caught.value) == r"expected text in UTF-8, was 'caf\udce9.csv'"


@pytest.mark.usefixtures("invoke")
def test_a_sign_that_the_output_lacks_is_an_escape() -> None:
    """Tables and JSON have signs that a terminal with an old encoding, or a pipe to one, cannot show."""
    done = CliRunner(charset="latin-1").invoke(main, ["exchange", "serve", "--view", "×–"])
    assert (done.exit_code, done.stdout_bytes) == (0, b"1 \xd7\\u2013\n")


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


def test_a_folder_with_signs_of_the_shell_is_read(tmp_path: Path) -> None:
    """The line in the start file names the script, whatever the shell would make of its path."""
    folder = tmp_path / 'a $HOME `b` "c" \\d'
    script, start = install_completion(main, "bash", {"HOME": str(tmp_path), "XDG_DATA_HOME": str(folder)})
    script.write_text("echo it is read")
    done = subprocess.run(["bash", str(start)], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("it is read\n", "")


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
        (["exchange"], "acc", {"accounts"}),
        (["exchange", "accounts"], "", {"cancel", "kill", "list", "revive"}),
        (["exchange", "accounts", "kill"], "--ca", {"--ca-file"}),
        (["exchange"], "--itch", {"--itch-port"}),
        (["exchange"], "--he", {"--help"}),
        (["exchange", "--dir", "x"], "--itch", {"--itch-port"}),
    ],
)
def test_commands_and_options_are_completed(words: list[str], begun: str, found: set[str]) -> None:
    """Sub-commands that are loaded when they are named are known all the same, and so are those beside a default."""
    complete = ShellComplete(main, {}, "deltabook", "_DELTABOOK_COMPLETE")
    assert {item.value for item in complete.get_completions(words, begun)} == found


def test_a_health_check_does_without_twisted() -> None:
    """A container engine runs it every few seconds in each container."""
    code = (
        "import sys; from deltabook.cli import main\n"
        "try: main(['health', 'exchange', '--at', '127.0.0.1:1'])\n"
        "except SystemExit: print('twisted' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("exchange: unhealthy: expected the exchange at 127.0.0.1:1, was: ")
    assert done.stdout.endswith("False\n")
