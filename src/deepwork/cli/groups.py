"""Groups of commands: help that is told whole and in one order, and a hint for whoever mistypes."""

from __future__ import annotations

import click


class Group(click.Group):
    """A group whose help says of each command all there is to say in a sentence."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is meant; of an unknown one, the nearest are named."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            names = self.list_commands(ctx)
            raise click.NoSuchCommand(error.command_name, possibilities=names, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = self.rows(ctx)
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def rows(self, ctx: click.Context) -> list[tuple[str, str]]:
        """What its help lists: names, and what they are for."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        return [(name, told(each)) for name, each in found if each is not None and not each.hidden]


def told(command: click.Command) -> str:
    """The first paragraph of a command's help, in one line."""
    return " ".join((command.help or "").split("\n\n")[0].split())


_SHARED = ("--path", "--db", "--global", "--json", "--idempotency-key")


def arranged(command: click.Command) -> click.Command:
    """The command and those below it, with one order of parameters: arguments, own options, shared ones."""
    command.params.sort(key=_rank)
    if isinstance(command, click.Group):
        for each in command.commands.values():
            arranged(each)
    return command


def _rank(parameter: click.Parameter) -> int:
    if isinstance(parameter, click.Argument):
        return -2
    return next((_SHARED.index(name) for name in parameter.opts if name in _SHARED), -1)
