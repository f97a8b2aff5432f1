"""`deepwork`: the entry point, the list of commands, and how errors become exit codes."""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any, cast

import click

from deepwork import __version__
from deepwork.edge.cli.framework.options import CommandGroup, sort_parameters
from deepwork.edge.cli.framework.terminal import protect_output
from deepwork.kernel.errors import Code, DeepworkError, DefinitionError, InvalidInput, StorageError
from deepwork.kernel.files.private import is_disk_full
from deepwork.kernel.foreign_text import escape_controls

REFUSED, MISUSED, INTERRUPTED, INTERNAL_FAILURE = 1, 2, 130, 70
"""Exit codes; docs/command-line.md documents them."""

# Import path and short help of each command, so that `deepwork --help` need not import the commands.
COMMANDS = {
    "init": ("deepwork.edge.cli.setup:init", "Set up deepwork in a project: settings and examples."),
    "setup": (
        "deepwork.edge.cli.setup:setup",
        "Configure a client to start deepwork: Claude Code, Codex, Cursor, ...",
    ),
    "trust": (
        "deepwork.edge.cli.trust:trust",
        "Trust the settings of a project that can act on this machine.",
    ),
    "serve": ("deepwork.edge.cli.servers:serve", "Run the MCP server."),
    "dashboard": ("deepwork.edge.cli.servers:dashboard", "Serve the dashboard: see what agents do, and act."),
    "db": ("deepwork.edge.cli.database:db", "Inspect, copy, back up and restore the store."),
    "doctor": ("deepwork.edge.cli.doctor:doctor", "Check the installation and suggest fixes."),
    "uninstall": (
        "deepwork.edge.cli.uninstall:uninstall",
        "Remove what deepwork wrote in this project, and for you.",
    ),
    "clean": ("deepwork.edge.cli.cleaning:clean", "Remove what landed, abandoned and old work left."),
    "status": ("deepwork.edge.cli.status:status", "Show what is running and what waits for you."),
    "inbox": ("deepwork.edge.cli.inbox:inbox", "What waits for you: look, put off, clear, give to somebody."),
    "notify": (
        "deepwork.edge.cli.notify:notify",
        "Be told elsewhere what waits for you: channels, quiet hours.",
    ),
    "since": ("deepwork.edge.cli.since:since", "Show what happened since you left."),
    "show": ("deepwork.edge.cli.show:show", "Show anything by its id, or by a part of it."),
    "approvals": ("deepwork.edge.cli.approvals:approvals", "What waits for your approval: look, and decide."),
    "answer": ("deepwork.edge.cli.people:answer", "Answer an issue or a review that waits for you."),
    "tell": ("deepwork.edge.cli.people:tell", "Tell whoever works on a task something."),
    "comment": (
        "deepwork.edge.cli.comments:comment",
        "Comment on a line of a task's work; its agent corrects it.",
    ),
    "events": ("deepwork.edge.cli.events:events", "Follow events as they happen."),
    "jobs": ("deepwork.edge.cli.jobs:jobs", "Jobs: list, validate, create and draw them."),
    "sessions": (
        "deepwork.edge.cli.sessions:sessions",
        "Job sessions: start, inspect and finish runs of jobs.",
    ),
    "plans": ("deepwork.edge.cli.plans:plans", "Plans: workflows, their tasks and their progress."),
    "tasks": ("deepwork.edge.cli.plans:tasks", "Tasks of plans: claim, update and complete them."),
    "do": ("deepwork.edge.cli.do.command:do", "Let agents plan, do, test and land what you want."),
    "report": ("deepwork.edge.cli.report:report", "What a run came to: its work, evidence and cost."),
    "run": ("deepwork.edge.cli.run.command:run", "Let agents work on a plan or a job, and watch them."),
    "runs": ("deepwork.edge.cli.run.runs:runs", "Runs of agents: show them, come back to them, stop them."),
    "land": (
        "deepwork.edge.cli.landings:land",
        "Merge finished work into a branch, test it, and move the branch.",
    ),
    "landings": (
        "deepwork.edge.cli.landings:landings",
        "Landings: what landed where, and what waits for you.",
    ),
    "work": (
        "deepwork.edge.cli.run.work:work",
        "Make one attempt at one task; for schedulers and pipelines.",
    ),
    "rewind": ("deepwork.edge.cli.rewind:rewind", "Undo a task with its files and state, or undo that."),
    "rewinds": ("deepwork.edge.cli.rewind:rewinds", "Rewinds of tasks: list and show them."),
    "budget": ("deepwork.edge.cli.budgets:budget", "Budgets: show and change what plans and tasks may cost."),
    "spend": ("deepwork.edge.cli.budgets:spend", "Show what work cost: by plan, task, agent, vendor or day."),
    "track": ("deepwork.edge.cli.track:track", "Record work as it happens, and show the record."),
    "check": ("deepwork.edge.cli.checks:check", "Run the checks of this tree, or those that a task needs."),
    "proofs": ("deepwork.edge.cli.checks:proofs", "Proofs: what checks said about which files."),
    "why": ("deepwork.edge.cli.why:why", "Show why a line or a commit exists: task, goal, checks, agent."),
    "provenance": (
        "deepwork.edge.cli.provenance:provenance",
        "Verify and export which tasks made which commits.",
    ),
    "diff": ("deepwork.edge.cli.track:diff", "Show what a task changed."),
    "templates": ("deepwork.edge.cli.templates:templates", "Reusable plan templates."),
    "workspaces": (
        "deepwork.edge.cli.workspaces:workspaces",
        "Workspaces: git worktrees for parallel tasks.",
    ),
    "repos": ("deepwork.edge.cli.workspaces:repos", "Repositories that plans are about."),
    "review": (
        "deepwork.edge.cli.review:review",
        "Finished work for you to review; changed files by .deepreview rules.",
    ),
    "agents": ("deepwork.edge.cli.agents:agents", "Registered agents, and whether they are online."),
    "messages": ("deepwork.edge.cli.agents:messages", "Messages between agents."),
    "tokens": ("deepwork.edge.cli.tokens:tokens", "Access tokens for servers on the network."),
    "hook": (
        "deepwork.edge.cli.hook:hook",
        "Handle a client's hook event; called by clients, not by people.",
    ),
    "audit": ("deepwork.edge.cli.audit:audit", "Audit log of tool calls; `verify` checks its integrity."),
    "completion": ("deepwork.edge.cli.shell_completion:completion", "Print a completion script for a shell."),
}


# The sections of `deepwork --help`.
COMMANDS_BY_PURPOSE = {
    "You": "status inbox since show approvals answer tell comment dashboard",
    "Run": "do report run runs land landings work rewind rewinds",
    "Work": "jobs sessions plans tasks budget track review templates workspaces repos agents messages",
    "Look": "why diff check proofs provenance events spend",
    "Operate": "serve db doctor clean uninstall tokens audit",
    "Set up": "init setup trust notify hook completion",
}


_MOST_WAYS = 3
"""Groups that a suggestion names; more would not help."""


class LazyGroup(CommandGroup):
    """Imports a command only when it is called, to keep startup fast."""

    def main(self, *arguments: Any, **given: Any) -> Any:
        """Run a command, whose output cannot control the terminal."""
        with protect_output():
            return super().main(*arguments, **given)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take `deepwork help runs list` as `deepwork runs list --help`."""
        return super().parse_args(ctx, [*args[1:], "--help"] if args[:1] == ["help"] else args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command; of a name that only groups have, such as `logs`, the error says which."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            groups = _find_groups_with(args[0])
            if not 0 < len(groups) <= _MOST_WAYS:
                raise
            ways = " or ".join(f"`deepwork {group} {args[0]}`" for group in groups)
            raise click.UsageError(f"{error.message} Use {ways}.", ctx) from None

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        return sort_parameters(cast("click.Command", getattr(importlib.import_module(module), attribute)))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        widest = max(map(len, COMMANDS))
        for purpose, names in COMMANDS_BY_PURPOSE.items():
            with formatter.section(purpose):
                rows = [(f"{name:<{widest}}", COMMANDS[name][1]) for name in names.split()]
                formatter.write_dl(rows)


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="deepwork")
@click.pass_context
def deepwork(context: click.Context) -> None:
    """Durable, reviewable, visible workflows for AI agents."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _find_groups_with(name: str) -> list[str]:
    from deepwork.edge.cli.shell_completion import INDEX

    commands = json.loads(INDEX.read_text(encoding="utf-8"))["commands"]
    return [group for group, about in commands.items() if name in about.get("commands", ())]


def main() -> None:
    """Run the command. Errors are printed as a message and a suggestion, never as a traceback."""
    if "_DEEPWORK_COMPLETE" in os.environ:
        from deepwork.edge.cli.shell_completion import complete

        complete()
    with protect_output():
        sys.exit(_run())


def _run() -> int:
    try:
        _require_standard_output()
        code = _invoke_command()
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - reported as an internal error
        return report_error(error)
    return code


def report_error(error: Exception) -> int:
    """Print what went wrong, and return the exit code."""
    if isinstance(error, DeepworkError):
        print_error(error)
        return MISUSED if isinstance(error, DefinitionError) else REFUSED
    if isinstance(error, click.ClickException):
        _print_usage_error(error)
        return error.exit_code
    if isinstance(error, BrokenPipeError):
        _discard_output()
        return 0
    return _report_failure(error)


def _invoke_command() -> int:
    stdout = sys.stdout
    try:
        deepwork.main(prog_name="deepwork", standalone_mode=False)
    except SystemExit as end:
        # When the reader closes the pipe (`| head`), click replaces sys.stdout and exits with 1.
        # For us that is success.
        reader_is_gone = sys.stdout is not stdout
        return 0 if reader_is_gone or not isinstance(end.code, int) else end.code
    return 0


def _report_failure(error: Exception) -> int:
    if isinstance(error, OSError) and (trouble := _to_environment_error(error)):
        print_error(trouble)
        return REFUSED
    _print_internal_error(error)
    return INTERNAL_FAILURE


def _require_standard_output() -> None:
    """Refuse to run with standard output closed.

    The next file opened would get file descriptor 1, and git would write its output into that file.
    """
    if sys.stdout is None:
        raise StorageError(
            "Standard output is closed, so the answer cannot be printed; nothing was done.",
            suggestion="Leave it open, or redirect it to /dev/null.",
        )


def _to_environment_error(error: OSError) -> DeepworkError | None:
    """Convert an OSError with an external cause: closed output, full disk, deleted folder; else None."""
    try:
        sys.stdout.flush()
    except OSError as unwritable:
        _discard_output()
        return StorageError(
            f"The answer could not be written: {unwritable.strerror}. The command may have taken effect.",
            suggestion="Free some space or redirect the output; check the result before you retry.",
        )
    if is_disk_full(error):
        what = error.filename or "The answer or a file of deepwork"
        return StorageError(
            f"{what} could not be written: the disk is full.",
            code=Code.STORAGE_FULL,
            suggestion="Free some space; check the result before you retry.",
        )
    if isinstance(error, FileNotFoundError) and not _has_current_folder():
        return DefinitionError(
            "The current folder no longer exists.", suggestion="Change to an existing folder, then try again."
        )
    return None


def _discard_output() -> None:
    """Redirect standard output to /dev/null: Python flushes its buffer at exit, which would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _has_current_folder() -> bool:
    try:
        return bool(Path.cwd())
    except FileNotFoundError:
        return False


def print_error(error: DeepworkError) -> None:
    """Print an error to standard error, as text or, with --json, as JSON."""
    if "--json" in sys.argv:
        print(json.dumps(error.to_dict()), file=sys.stderr)
        return
    from deepwork.edge.cli.command_hints import name_command, to_shell_words

    lines = [f"Error: {error.message}", to_shell_words(error.render_suggestion(name_command))]
    print(escape_controls("\n".join(filter(None, lines))), file=sys.stderr)


def _print_usage_error(error: click.ClickException) -> None:
    """Print click's error about the arguments, and where to find help."""
    if "--json" not in sys.argv:
        text = io.StringIO()
        error.show(text)  # has no colours of ours, so whatever looks like one came with an argument
        sys.stderr.write(escape_controls(text.getvalue()))
        return
    path = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "deepwork"
    print_error(InvalidInput(error.format_message(), suggestion=f"See `{path} --help`."))


def _print_internal_error(error: Exception) -> None:
    if os.environ.get("DEEPWORK_LOG_LEVEL", "").lower() == "debug":
        import traceback

        sys.stderr.write(escape_controls("".join(traceback.format_exception(error))))
    print_error(
        DeepworkError(
            f"deepwork failed: {type(error).__name__}: {error}",
            code=Code.INTERNAL_ERROR,
            suggestion="This is a bug in deepwork. Report it with the output of DEEPWORK_LOG_LEVEL=debug.",
        )
    )
