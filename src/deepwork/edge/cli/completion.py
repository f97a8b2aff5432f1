"""`deepwork completion`: print the completion script for a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from deepwork.edge.cli.shell_completion import VARIABLE

_INSTRUCTIONS = {
    "bash": '# Put this into ~/.bashrc:  eval "$(deepwork completion bash)"',
    "zsh": '# Put this into ~/.zshrc, after compinit:  eval "$(deepwork completion zsh)"',
    "fish": "# Put this into ~/.config/fish/completions/deepwork.fish:  deepwork completion fish | source",
}


@click.command()
@click.argument("shell", type=click.Choice(list(_INSTRUCTIONS)))
def completion(shell: str) -> None:
    """Print a completion script for a shell; it completes commands, options and ids.

    bash, zsh: add eval "$(deepwork completion SHELL)" to ~/.bashrc, or to ~/.zshrc after compinit.

    fish: deepwork completion fish > ~/.config/fish/completions/deepwork.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # click supports all three
    script = kind(click.Group(), {}, "deepwork", VARIABLE).source()
    click.echo(f"{_INSTRUCTIONS[shell]}\n{script}")
