"""`deepwork completion`: what makes a shell complete our commands, their options and the ids they take."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from deepwork.cli.completing import VARIABLE

_HOW = {
    "bash": '# Put this into ~/.bashrc:  eval "$(deepwork completion bash)"',
    "zsh": '# Put this into ~/.zshrc, after compinit:  eval "$(deepwork completion zsh)"',
    "fish": "# Put this into ~/.config/fish/completions/deepwork.fish:  deepwork completion fish | source",
}


@click.command()
@click.argument("shell", type=click.Choice(list(_HOW)))
def completion(shell: str) -> None:
    """Print the script that makes a shell complete our commands, their options and the ids they take.

    bash, zsh: eval "$(deepwork completion SHELL)" in ~/.bashrc or ~/.zshrc, there after compinit.

    fish: deepwork completion fish > ~/.config/fish/completions/deepwork.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # click knows all three
    script = kind(click.Group(), {}, "deepwork", VARIABLE).source()
    click.echo(f"{_HOW[shell]}\n{script}")
