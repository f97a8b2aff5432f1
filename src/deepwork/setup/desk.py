"""What a setup would change, found out before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from deepwork.errors import DeepworkError, InvalidInput, NotAllowed
from deepwork.setup import guidance, hooks, servers
from deepwork.setup.choice import Choice, Toolbox, choose
from deepwork.setup.clients import CLIENTS, Client, Scope
from deepwork.setup.entry import added_by_user, arguments_of, mark_of, serving, store_of, toolsets_of
from deepwork.setup.files import Change, read_text, refused
from deepwork.setup.jsonc import Unreadable
from deepwork.setup.surroundings import Surroundings

_NOT_ON_PATH = (
    "`deepwork` is not on PATH, so the file names its place on this machine, where others have nothing. "
    "Install it with `uv tool install` or pipx, then run this again."
)
_TOLD_ANYWAY = "the server's own instructions tell agents how to begin."


@dataclass(frozen=True)
class Wish:
    """What was asked for."""

    client: Client
    scope: Scope
    toolsets: tuple[str, ...] | None = None
    with_guidance: bool = True
    with_hooks: bool = False
    force: bool = False
    absolute: bool = False


@dataclass(frozen=True)
class Plan:
    """What will be changed, what an agent is offered by it, and what a person should know."""

    changes: list[Change]
    choice: Choice | None = None
    notes: list[str] = field(default_factory=list)


class Draft:
    """Texts of files on their way to what they shall be; nothing is written."""

    def __init__(self) -> None:
        self._before: dict[Path, str | None] = {}
        self._after: dict[Path, str] = {}
        self._about: dict[Path, list[str]] = {}

    def text(self, path: Path) -> str:
        if path not in self._before:
            self._before[path] = read_text(path)
            self._after[path] = self._before[path] or ""
        return self._after[path]

    def edit(self, path: Path, about: str, edit: Callable[[str], str]) -> None:
        """Change a text; one that cannot be read is named by its line."""
        try:
            self._after[path] = edit(self.text(path))
        except Unreadable as error:
            raise refused(path, error.line, error.problem) from None
        self._about.setdefault(path, []).append(about)

    def changes(self) -> list[Change]:
        return [
            Change(path, tuple(about), self._before[path], self._outcome(path))
            for path, about in self._about.items()
        ]

    def _outcome(self, path: Path) -> str | None:
        """What the file holds in the end; one that we emptied goes, unless a link would then lead nowhere."""
        before, after = self._before[path], self._after[path]
        is_blank = not after.removeprefix("\ufeff").strip()
        was_emptied = after != before and not path.is_symlink()
        return None if is_blank and (before is None or was_emptied) else after


class SetupDesk:
    """Plans setups on this machine."""

    def __init__(self, here: Surroundings, box: Callable[[], Toolbox]) -> None:
        self._here = here
        self._box = box

    def setting_up(self, wish: Wish) -> Plan:
        """What makes the client start deepwork."""
        client, draft = wish.client, Draft()
        path = self.file_of(client, wish.scope)
        there = self._entry(client, path, draft)
        if there is not None and mark_of(client.shape, there) is None and not wish.force:
            raise NotAllowed(
                f"{path} has an entry `deepwork` that `deepwork setup` did not write.",
                suggestion="It was left alone. Replace it with --force; --print --force shows by what.",
            )
        program, notes = self._program(wish)
        before = arguments_of(client.shape, there) if mark_of(client.shape, there) is not None else []
        choice = choose(self._box(), wish.toolsets or toolsets_of(before), client.tool_limit)
        folder = self._folder(wish)
        arguments = serving(folder, choice.named, added_by_user(before))
        draft.edit(path, "server", lambda text: servers.put(client, text, program, arguments))
        notes += self._add_guidance(wish, choice, draft) if wish.with_guidance else []
        notes += self._add_hooks(wish, program, store_of(arguments), draft)
        notes += client.project_notes if wish.scope == "project" else ()
        if client.tool_limit is not None and choice.tools > client.tool_limit:
            notes.append(
                f"These are {choice.tools} tools; {client.title} shows {client.tool_limit} of all servers."
            )
        if folder == str(self._here.project):
            notes.append(
                f"{client.title} works on {folder} by this entry; for another project run this again there."
            )
        return Plan(draft.changes(), choice, notes)

    def removing(self, wish: Wish) -> Plan:
        """What takes away exactly what a setup wrote."""
        client, draft, notes = wish.client, Draft(), []
        path = self.file_of(client, wish.scope)
        if self._hooks_file(wish) is not None:
            draft.edit(self._hooks_path(wish), "hooks", hooks.take)
        there = self._entry(client, path, draft)
        if there is not None and mark_of(client.shape, there) is None and not wish.force:
            notes.append(
                f"The entry in {path} was not written by `deepwork setup`: it stays. --force removes it too."
            )
        else:
            draft.edit(path, "server", lambda text: servers.take(client, text))
        if file := self._guidance_path(client, wish.scope):
            others = [other.title for other, _ in self._sharing(client, wish.scope)]
            if others and guidance.is_there(draft.text(file)):
                notes.append(f"The guidance in {file} stays: {', '.join(others)} goes by it too.")
            else:
                draft.edit(file, "guidance", guidance.take)
        return Plan([change for change in draft.changes() if change.before is not None], None, notes)

    def file_of(self, client: Client, scope: Scope) -> Path:
        """The client's file; of several names the one that is there."""
        places = client.project_file if scope == "project" else client.user_file
        if not places:
            raise InvalidInput(
                f"{client.title} has no file of the project's own.",
                suggestion="Pass --scope user, or leave it out.",
            )
        paths = [self._here.path(place) for place in places]
        return next((path for path in paths if path.exists()), paths[0])

    def status(self, client: Client, scope: Scope) -> str:
        """Whether a client starts deepwork: yes, by hand, no, or that its file cannot be read."""
        if not (client.project_file if scope == "project" else client.user_file):
            return ""
        path = self.file_of(client, scope)
        try:
            there = servers.find(client, read_text(path) or "")
        except Unreadable as error:
            return f"unreadable at line {error.line}"
        except DeepworkError:  # one client's file must not hide the others; setting that one up says more
            return "unreadable"
        if there is None:
            return "no"
        return "by hand" if mark_of(client.shape, there) is None else "yes"

    def signs(self, client: Client) -> list[str]:
        """What shows that a client is used here: programs and folders."""
        programs = [found for name in client.programs if (found := self._here.find(name))]
        folders = [path for place in client.folders if (path := self._here.path(place)).is_dir()]
        return [*programs, *map(self._here.shown, folders)]

    def shown(self, path: Path) -> str:
        """A path as a person knows it."""
        return self._here.shown(path)

    def _entry(self, client: Client, path: Path, draft: Draft) -> object:
        try:
            return servers.find(client, draft.text(path))
        except Unreadable as error:
            raise refused(path, error.line, error.problem) from None

    def _program(self, wish: Wish) -> tuple[list[str], list[str]]:
        """What starts deepwork, and what to know about it.

        A project's file goes to other machines, where our path means nothing; a user's file stays here, and a
        client that was not started from a shell has another PATH.
        """
        if wish.scope == "user" or wish.absolute:
            return list(self._here.program), []
        if self._here.find("deepwork") is None:
            return list(self._here.program), [_NOT_ON_PATH]
        wary = f"If {wish.client.title} does not find `deepwork`, run this again with --absolute."
        return ["deepwork"], [wary] if wish.client.is_graphical else []

    def _folder(self, wish: Wish) -> str:
        word = wish.client.project_folder if wish.scope == "project" else wish.client.user_folder
        return word or str(self._here.project)

    def _add_guidance(self, wish: Wish, choice: Choice, draft: Draft) -> list[str]:
        file = self._guidance_path(wish.client, wish.scope)
        if file is None:
            return [f"{wish.client.title} reads no file with guidance; {_TOLD_ANYWAY}"]
        shared = [name for _, names in self._sharing(wish.client, wish.scope) for name in names]
        body = guidance.section({*choice.toolsets, *shared})
        draft.edit(file, "guidance", lambda text: guidance.put(text, body))
        return []

    def _add_hooks(self, wish: Wish, program: list[str], store: list[str], draft: Draft) -> list[str]:
        known = wish.client.hooks
        if known is None:
            return (
                [f"deepwork has no hooks for {wish.client.title}: none were written."]
                if wish.with_hooks
                else []
            )
        path = self._hooks_path(wish)
        if not wish.with_hooks and not self._has_hooks(path, draft):
            return []
        draft.edit(path, "hooks", lambda text: hooks.put(wish.client, known, text, program, store))
        return list(known.notes) if wish.with_hooks else []

    def _has_hooks(self, path: Path, draft: Draft) -> bool:
        try:
            return hooks.are_there(draft.text(path))
        except Unreadable:  # then none of them work, and nobody asked for them
            return False

    def _hooks_file(self, wish: Wish) -> str | None:
        known = wish.client.hooks
        return None if known is None else (known.project if wish.scope == "project" else known.user)

    def _hooks_path(self, wish: Wish) -> Path:
        return self._here.path(self._hooks_file(wish) or "")

    def _guidance_path(self, client: Client, scope: Scope) -> Path | None:
        place = client.project_guidance if scope == "project" else client.user_guidance
        return self._here.path(place) if place else None

    def _sharing(self, client: Client, scope: Scope) -> Iterator[tuple[Client, tuple[str, ...]]]:
        """Other clients that are set up and read the same guidance, with their toolsets."""
        mine = self._guidance_path(client, scope)
        for other in CLIENTS:
            for where in ("project", "user"):
                file = self._guidance_path(other, where)
                if (other, where) == (client, scope) or not _are_one(file, mine):
                    continue
                if self.status(other, where) == "yes":
                    there = servers.find(other, read_text(self.file_of(other, where)) or "")
                    chosen = toolsets_of(arguments_of(other.shape, there)) or self._box().configured
                    yield other, self._box().expanded(chosen)


def _are_one(file: Path | None, other: Path | None) -> bool:
    """Whether two names lead to the same file: a link counts as what it leads to."""
    return file is not None and other is not None and file.resolve() == other.resolve()
