"""Base class for groups of commands: uncut help texts, sorted parameters, suggestions for mistyped names."""

from __future__ import annotations

import click


class CommandGroup(click.Group):
    """A group whose help shows the first paragraph of each command's help without cutting it."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command; if it is unknown, the error suggests similar names."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            names = self.list_commands(ctx)
            raise click.NoSuchCommand(error.command_name, possibilities=names, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = self.build_help_rows(ctx)
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def build_help_rows(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Return (name, short help) for each visible command."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        return [
            (name, format_short_help(each)) for name, each in found if each is not None and not each.hidden
        ]


def format_short_help(command: click.Command) -> str:
    """Return the first paragraph of a command's help as one line."""
    return " ".join((command.help or "").split("\n\n")[0].split())


_SHARED_OPTIONS = ("--path", "--db", "--global", "--json", "--idempotency-key")


def sort_parameters(command: click.Command) -> click.Command:
    """Sort the parameters of a command and its subcommands: arguments, its own options, shared options."""
    command.params.sort(key=_rank_parameter)
    if isinstance(command, click.Group):
        for each in command.commands.values():
            sort_parameters(each)
    return command


def _rank_parameter(parameter: click.Parameter) -> int:
    if isinstance(parameter, click.Argument):
        return -2
    return next((_SHARED_OPTIONS.index(name) for name in parameter.opts if name in _SHARED_OPTIONS), -1)
