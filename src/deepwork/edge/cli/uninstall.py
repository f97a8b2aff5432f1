"""`deepwork uninstall`: removes what deepwork wrote in this project, and for you; never unmerged work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deepwork.edge.cli.framework.applications import call_operation, name_person, open_application
from deepwork.edge.cli.framework.options import json_option, load_command_settings, place_options
from deepwork.edge.cli.framework.output import print_answer, to_printable
from deepwork.edge.cli.setup import build_planner
from deepwork.kernel.call import Call
from deepwork.kernel.environment import get_cache_folder, get_user_folder
from deepwork.kernel.errors import DeepworkError, NotAllowed
from deepwork.kernel.records import dataclass

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application
    from deepwork.kernel.config import Settings
    from deepwork.kernel.vendors import SetupScope

_REFS = ("refs/deepwork", "refs/heads/deepwork")
_MAX_NAMED = 3
_PROGRAM = "uv tool uninstall deepwork  # or pip uninstall deepwork: removes the program"


@dataclass(frozen=True)
class _Found:
    """Something that deepwork wrote, and how it is removed; `kept` says why it stays."""

    kind: str
    name: str
    kept: str | None = None
    remove: Callable[[], None] | None = None

    def carry_out(self) -> _Found:
        """Remove it; what cannot be removed is kept, and says why."""
        if self.remove is None or self.kept:
            return self
        try:
            self.remove()
        except (DeepworkError, OSError) as error:
            return _Found(self.kind, self.name, f"It could not be removed: {error}")
        return self


@click.command()
@click.option("--yes", is_flag=True, help="Remove what is listed.")
@click.option("--user", is_flag=True, help="Also what deepwork wrote for you, outside the project.")
@click.option(
    "--delete-store", is_flag=True, help="Also the store, with all plans, decisions and the history of work."
)
@json_option
@place_options
def uninstall(yes: bool, user: bool, delete_store: bool, as_json: bool, path: str, **place: Any) -> None:
    """List what deepwork wrote in this project; --yes removes it.

    That is its entries in the settings of clients, hooks, guidance, worktrees, branches and refs that are
    merged, and `.deepwork`. What is not merged or not committed always stays; the store, too, unless you say
    --delete-store.
    """
    settings = load_command_settings(path, quiet=as_json, **place)
    with open_application(path, dict(place), reads=True, quiet=True) as app:
        runs = [each["id"] for each in call_operation(app, "list_runs", {"open": True})["runs"]]
        if yes:
            _require_quiet(runs)
        scopes: tuple[SetupScope, ...] = ("project", "user") if user else ("project",)
        found = list(_find_settings(settings, scopes))
        found = [each.carry_out() for each in found] if yes else found
        leftovers = _find_leftovers(app, removes=yes)
        found += [*leftovers, *_find_refs(settings, leftovers)]
    rest = [*_find_state(settings, leftovers, with_store=delete_store), *(_find_of_user() if user else ())]
    found += [each.carry_out() for each in rest] if yes else rest
    answer = {
        "removable": [{"kind": each.kind, "name": each.name} for each in found if each.kept is None],
        "kept": [{"kind": each.kind, "name": each.name, "kept": each.kept} for each in found if each.kept],
        "is_removed": yes,
        "open_runs": runs,
    }
    again = " ".join(["deepwork uninstall", *["--user"] * user, *["--delete-store"] * delete_store, "--yes"])
    print_answer(answer, as_json=as_json, render=lambda shown: list(_render(shown, again)))


def _require_quiet(runs: Sequence[str]) -> None:
    """Raise if runs of agents are open: what they need must not vanish under them."""
    if runs:
        raise NotAllowed(
            f"Nothing was removed: runs of agents are open ({', '.join(runs[:_MAX_NAMED])}).",
            suggestion=f"End them first: `deepwork runs stop {runs[0]} --now`.",
        )


def _find_settings(settings: Settings, scopes: Sequence[SetupScope]) -> Iterator[_Found]:
    """Find what `deepwork setup` wrote into files of clients."""
    from deepwork.views.setup.config_files import apply_change

    planner = build_planner(settings)
    plan = planner.plan_complete_removal(scopes)
    for change in plan.changes:
        name = f"{planner.format_path(change.path)} ({', '.join(dict.fromkeys(change.about))})"
        yield _Found("settings", name, remove=partial(apply_change, change, new_mode=0o600))
    for note in plan.notes:
        yield _Found("settings", note.partition(" ")[0], note)


def _find_leftovers(app: Application, *, removes: bool) -> list[_Found]:
    """Find, or remove, what work that is over left."""
    name = "remove_leftovers" if removes else "list_leftovers"
    call = Call(name_person(), name, scope="admin", carries_notices=False)
    answer = call_operation(app, name, {"older_than_days": 0}, call)
    every = [*answer["removable"], *answer["kept"]]
    return [_Found(each["kind"], each["name"], each.get("kept")) for each in every]


def _find_refs(settings: Settings, known: Sequence[_Found]) -> Iterator[_Found]:
    """Find the branches and refs of work that is not over."""
    from deepwork.edge.server.assembly.trees import open_git
    from deepwork.kernel.files.repositories import find_repository

    if find_repository(settings.project_root) is None:
        return
    names = {each.name for each in known}
    git = open_git(settings.project_root)
    for ref in git.run("for-each-ref", "--format=%(refname)", *_REFS).decode(errors="replace").splitlines():
        name = ref.removeprefix("refs/heads/")
        if name not in names:
            kind = "ref" if name == ref else "branch"
            yield _Found(kind, name, "Its work is not over.")


def _find_state(settings: Settings, leftovers: Sequence[_Found], *, with_store: bool) -> Iterator[_Found]:
    """Find what is in `.deepwork`, and a store elsewhere."""
    from deepwork.views.setup.removal import list_state, remove_entry

    folder = settings.state_folder
    leaving = {Path(each.name) for each in leftovers if each.kind == "worktree" and each.kept is None}
    for entry in list_state(folder, with_store=with_store, leaving=leaving):
        name = str(entry.path.relative_to(folder.parent))
        yield _Found("state", name, entry.kept, partial(remove_entry, entry))
    if "://" in settings.database_location:
        yield _Found("store", "the PostgreSQL database", "Others may use it: drop it yourself.")
    elif settings.global_store:
        yield _Found("store", settings.database_location, "Other projects use it: delete it yourself.")


def _find_of_user() -> Iterator[_Found]:
    import shutil

    cache = get_cache_folder()
    if cache.is_dir():
        yield _Found("cache", str(cache), remove=partial(shutil.rmtree, cache))
    kept = {
        get_user_folder(): "It has your settings, agents, trust, and the key of the stores of all projects.",
        Path.home() / ".deepwork": "It has your templates, and the store of --global.",
    }
    for folder, why in kept.items():
        if folder.is_dir():
            yield _Found("user", str(folder), f"{why} Delete it when no project needs it.")


def _render(answer: Mapping[str, Any], again: str) -> Iterator[str]:
    is_removed = answer["is_removed"]
    for each in answer["removable"]:
        yield to_printable(f"{'removed ' if is_removed else ''}{each['kind']}  {each['name']}")
    for each in answer["kept"]:
        yield to_printable(f"kept {each['kind']}  {each['name']}: {each['kept']}")
    done = "removed" if is_removed else "can be removed"
    yield f"{len(answer['removable'])} {done}, {len(answer['kept'])} kept."
    if runs := answer["open_runs"]:
        yield f"Nothing is removed while runs of agents are open ({', '.join(runs[:_MAX_NAMED])})."
        yield f"deepwork runs stop {runs[0]} --now  # ends it"
    if answer["removable"] and not is_removed:
        yield f"{again}  # removes these"
    if is_removed:
        yield _PROGRAM
