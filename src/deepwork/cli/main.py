"""`deepwork`: the command and what it can do."""

from __future__ import annotations

import importlib
import json
import sys
from typing import cast

import click

from deepwork import __version__
from deepwork.errors import DeepworkError, DefinitionError

# Where each command lives and what it is for, so that `deepwork --help` imports none of them.
COMMANDS = {
    "serve": ("deepwork.cli.serve:serve", "Run the MCP server."),
    "dashboard": ("deepwork.cli.dashboard:dashboard", "See in a browser what agents do, and act."),
    "db": ("deepwork.cli.database:db", "The store: look at it, copy it, back it up, put it back."),
    "doctor": ("deepwork.cli.doctor:doctor", "Say what is running, what is wrong and how to mend it."),
    "events": ("deepwork.cli.events:events", "Follow what happens."),
    "jobs": ("deepwork.cli.jobs:jobs", "Jobs: write, check and look at them."),
    "sessions": ("deepwork.cli.sessions:sessions", "Job sessions: runs of jobs, under way or done."),
    "plans": ("deepwork.cli.plans:plans", "Plans: workflows, their tasks, and how far they are."),
    "tasks": ("deepwork.cli.plans:tasks", "Tasks of plans: claim, note, report."),
    "track": ("deepwork.cli.track:track", "Record work as it happens, and see what came of it."),
    "diff": ("deepwork.cli.track:diff", "What a task changed."),
    "templates": ("deepwork.cli.templates:templates", "Templates: plans to be used again."),
    "workspaces": (
        "deepwork.cli.workspaces:workspaces",
        "Workspaces: git worktrees for tasks that run at the same time.",
    ),
    "repos": ("deepwork.cli.workspaces:repos", "Repositories that plans are about."),
    "review": ("deepwork.cli.review:review", "Reviews of changed files, by .deepreview rules."),
    "agents": ("deepwork.cli.verbs:agents", "Agents: who works, and whether they live."),
    "messages": ("deepwork.cli.verbs:messages", "Messages between agents."),
    "tokens": ("deepwork.cli.tokens:tokens", "Tokens: who may call a server on the network, and how much."),
    "audit": ("deepwork.cli.audit:audit", "The record of who called what, and whether it is whole."),
}


class LazyGroup(click.Group):
    """Imports a command when it is called, not before."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        return cast("click.Command", getattr(importlib.import_module(module), attribute))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, purpose) for name, (_, purpose) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="deepwork")
def deepwork() -> None:
    """Durable, reviewable, visible workflows for AI agents."""


def main() -> None:
    """Run the command; what goes wrong is one sentence and what to do about it, never a traceback."""
    try:
        deepwork.main(prog_name="deepwork", standalone_mode=False)
    except DeepworkError as error:
        complain(error)
        sys.exit(2 if isinstance(error, DefinitionError) else 1)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:  # whoever read our output has seen enough
        sys.exit(0)


def complain(error: DeepworkError) -> None:
    """Say what went wrong, to a person or to a program."""
    if "--json" in sys.argv:
        print(json.dumps(error.as_dict()), file=sys.stderr)
        return
    print(f"Error: {error.message}", file=sys.stderr)
    if error.suggestion:
        print(error.suggestion, file=sys.stderr)
