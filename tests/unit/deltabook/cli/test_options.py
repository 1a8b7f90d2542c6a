"""Options over all commands: one spelling for one meaning, and long helps in sections."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from deltabook.cli import main
from deltabook.cli._groups import MANY_OPTIONS, SECTIONS

OPEN_LISTS = {"--format": "readers take the formats of CREATE STREAM, which others may add to"}
"""Options that are a choice in some commands and a text in others, and why."""


def commands(
    command: click.Command = main, path: tuple[str, ...] = (), parent: click.Context | None = None
) -> Iterator[tuple[str, click.Command]]:
    """Every command with its path."""
    context = click.Context(command, info_name=path[-1] if path else "deltabook", parent=parent)
    yield " ".join(path), command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, (*path, name), context)


COMMANDS = dict(commands())


def options(command: click.Command) -> list[click.Option]:
    return [parameter for parameter in command.params if isinstance(parameter, click.Option)]


def kind(option: click.Option) -> str:
    """What somebody has to write behind an option."""
    if option.is_flag:
        return "nothing"
    if isinstance(option.type, click.Choice):
        return "one of " + ", ".join(map(str, option.type.choices))
    return "a number" if option.type.name.removesuffix(" range") in {"integer", "float", "port"} else "a text"


def test_every_command_is_looked_at() -> None:
    assert {"algo run", "cluster worker", "demo", "exchange run", "exchange replay seek", "runtime"} <= COMMANDS.keys()
    assert len(COMMANDS) > 60


def test_a_number_is_finite_in_every_command() -> None:
    """Click's range accepts NaN, which no comparison refuses later."""
    numbers = [
        (path, option)
        for path, command in COMMANDS.items()
        for option in options(command)
        if isinstance(option.type, click.types.FloatParamType)
    ]
    assert len(numbers) > 20
    accepted = [
        f"{path} {option.opts[0]} {value}"
        for path, option in numbers
        for value in ("nan", "-nan", "inf", "1e999")
        if takes(option, value)
    ]
    assert accepted == []


def takes(option: click.Option, value: str) -> bool:
    """True if the option's type accepts the text."""
    try:
        option.type.convert(value, option, None)
    except click.BadParameter:
        return False
    return True


def test_an_option_takes_the_same_in_every_command() -> None:
    found: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path, command in COMMANDS.items():
        for option in options(command):
            found[option.opts[0]][kind(option)].append(path)
    odd = {name: dict(kinds) for name, kinds in found.items() if len(kinds) > 1 and name not in OPEN_LISTS}
    assert odd == {}


def test_one_meaning_has_one_spelling() -> None:
    """Options of one command's words are called the same in the next."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for command in COMMANDS.values():
        for option in options(command):
            found[" ".join((option.help or "").lower().split())].add(option.opts[0])
    # Short words that mean something only beside the option's name.
    odd = {words: names for words, names in found.items() if len(names) > 1 and len(words.split()) > 5}
    assert odd == {}


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("replay --mode", "replay --replay-mode"),
        ("exchange run --replay-day", "exchange run --day"),
        ("exchange hash --at", "exchange hash --at-request"),
        ("demo --feed", "demo --feed-protocol"),
        ("runtime --workers", "runtime --threads"),
        ("algo run --http-interface", "algo run --interface"),
        ("algo verify --exchange", "algo verify --exchange-dir"),
        ("dashboard --private-network", "dashboard --private-name"),
        ("reader drop --rows", "reader drop --existing-rows"),
    ],
)
def test_a_name_that_meant_two_things_means_one(wrong: str, right: str) -> None:
    path, _, name = right.rpartition(" ")
    names = {option for each in options(COMMANDS[path]) for option in each.opts}
    assert name in names
    assert wrong.rpartition(" ")[2] not in names


def test_long_helps_have_sections() -> None:
    """A title for each option, none twice, and none for an option that there is not."""
    listed = [option for names in SECTIONS.values() for option in names.split()]
    assert len(listed) == len(set(listed))
    for path, command in COMMANDS.items():
        if len(options(command)) > MANY_OPTIONS:
            unlisted = [option.opts[0] for option in options(command) if option.opts[0] not in listed]
            assert unlisted == [], path


@pytest.mark.parametrize(("path", "is_long"), [("runtime", True), ("doctor", False)])
def test_a_help_names_every_option_once(path: str, is_long: bool) -> None:
    done = CliRunner().invoke(main, [*path.split(), "--help"], terminal_width=120)
    assert done.exit_code == 0
    lines = done.output.splitlines()
    for option in options(COMMANDS[path]):
        starts = (f"  {option.opts[0]} ", f"  {option.opts[0]} /")
        named = [line for line in lines if line.startswith(starts) or line.strip() == option.opts[0]]
        assert len(named) == 1, option.opts
    assert ("Epochs, disk and speed:" in lines) is is_long
    assert ("Options:" in lines) is not is_long
    assert "Other options:" not in lines


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["runtme"], "did you mean 'runtime'?"),
        (["algo", "rnu"], "did you mean 'run'?"),
        (["exchange", "stats"], "did you mean 'status'?"),
        (["demo", "--secnds", "3"], "--seconds"),
    ],
)
def test_what_was_mistyped_is_named(arguments: list[str], meant: str) -> None:
    done = CliRunner().invoke(main, arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert meant in done.stderr
    assert done.stderr.count("\n") == 1
