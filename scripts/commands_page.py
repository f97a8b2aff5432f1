"""Generates docs/commands.md from the commands; a test checks that the page is up to date."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from deepwork.cli.main import deepwork

PAGE = Path(__file__).parent.parent / "docs" / "commands.md"
EVERYWHERE = {"--path", "--db", "--global", "--json", "--help", "--idempotency-key"}

HEAD = """\
# Every command

What `deepwork COMMAND --help` says, on one page, written from the code by `make docs`. [Command line](command-line.md) says what they
are for. Left out below, because nearly every command has them:

| option | |
|---|---|
| `--path DIR` | the project; default: the one that this folder is in |
| `--db PATH\\|URL` | where everything is kept |
| `--global` | use `~/.deepwork`, for all projects |
| `--json` | print the answer as JSON |
| `--idempotency-key KEY` | of commands that change something: repeating one with this key changes nothing |
"""


def render_page() -> str:
    """Render the whole page."""
    sections = [_render_section(path, command) for path, command in _walk_commands(deepwork, ("deepwork",))]
    return HEAD + "".join(sections)


def _walk_commands(
    command: click.Command, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if len(path) > 1 and not command.hidden:
        yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                yield from _walk_commands(inner, (*path, name))


def _render_section(path: tuple[str, ...], command: click.Command) -> str:
    about = _render_help(command)
    if len(path) == 2:
        title = f"\n## deepwork {path[1]}\n\n"
        usage = (
            ""
            if isinstance(command, click.Group) and not command.invoke_without_command
            else _render_usage(path, command)
        )
        return title + usage + about + _render_options(command)
    return f"\n### {' '.join(path[1:])}\n\n{_render_usage(path, command)}{about}{_render_options(command)}"


def _render_usage(path: tuple[str, ...], command: click.Command) -> str:
    words = [*path, *(_format_argument(each) for each in command.params if isinstance(each, click.Argument))]
    return f"```text\n{' '.join(words)}\n```\n\n"


def _format_argument(argument: click.Argument) -> str:
    name = argument.metavar or argument.human_readable_name.upper()
    many = "..." if argument.nargs == -1 and not name.endswith("...") else ""
    return f"[{name}]{many}" if not argument.required and not name.startswith("[") else name + many


def _render_help(command: click.Command) -> str:
    text = (command.help or command.short_help or "").partition("\f")[0].replace("\b\n", "")
    lines = [line.strip() for line in text.splitlines()]
    return _escape_markdown("\n".join(lines)).strip() + "\n"


def _render_options(command: click.Command) -> str:
    rows = [
        f"| {_format_option(each)} | {_escape_markdown(each.help or '')} |"
        for each in command.params
        if isinstance(each, click.Option) and not each.hidden and not EVERYWHERE & set(each.opts)
    ]
    return "\n" + "\n".join(["| option | |", "|---|---|", *rows]) + "\n" if rows else ""


def _format_option(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    choices = option.type.choices if isinstance(option.type, click.Choice) else ()
    value = " \\| ".join(f"`{word}`" for word in choices) or (
        "" if option.is_flag else _format_metavar(option)
    )
    return f"{names} {value}".strip()


def _format_metavar(option: click.Option) -> str:
    return f"`{option.metavar or option.type.name.upper()}`".replace("|", "\\|")


def _escape_markdown(text: str) -> str:
    """Escape characters that mean something in Markdown."""
    return re.sub(r"([<>*|])", r"\\\1", text)


if __name__ == "__main__":
    PAGE.write_text(render_page(), encoding="utf-8")
