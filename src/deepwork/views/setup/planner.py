"""Plans all file changes of a setup before anything is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from itertools import product
from pathlib import Path

from deepwork.kernel.errors import DeepworkError, InvalidInput, NotAllowed
from deepwork.kernel.records import dataclass
from deepwork.kernel.vendors import VENDORS, SetupScope, Vendor
from deepwork.views.setup import entry, guidance, hook_entries
from deepwork.views.setup.config_files import ConfigFileChange, build_unreadable_error, read_text
from deepwork.views.setup.entry import (
    MachineLocations,
    build_serve_arguments,
    is_marked,
    list_arguments,
    list_store_arguments,
    list_user_arguments,
    list_user_variables,
    parse_toolsets,
)
from deepwork.views.setup.guidance import ToolsetCatalog, ToolsetChoice, choose_toolsets
from deepwork.views.setup.jsonc import UnreadableText

_NOT_ON_PATH_NOTE = (
    "`deepwork` is not on PATH, so the file has its full path, which is valid on this machine only. "
    "Install it with `uv tool install` or pipx, then run this again."
)
_INSTRUCTIONS_NOTE = "the server's instructions explain to agents how to begin."


@dataclass(frozen=True)
class SetupRequest:
    """The options of `deepwork setup`."""

    client: Vendor
    scope: SetupScope
    toolsets: tuple[str, ...] | None = None
    with_guidance: bool = True
    with_hooks: bool = False
    force: bool = False
    absolute: bool = False


@dataclass(frozen=True)
class SetupPlan:
    """The file changes, the toolsets they offer to agents, and notes for the user."""

    changes: list[ConfigFileChange]
    choice: ToolsetChoice | None = None
    notes: list[str] = field(default_factory=list)


class FileDrafts:
    """Collects edits of files in memory; writes nothing."""

    def __init__(self) -> None:
        self._before: dict[Path, str | None] = {}
        self._after: dict[Path, str] = {}
        self._about: dict[Path, list[str]] = {}

    def get_text(self, path: Path) -> str:
        """Return the text with all edits so far; empty for a missing file."""
        if path not in self._before:
            self._before[path] = read_text(path)
            self._after[path] = self._before[path] or ""
        return self._after[path]

    def edit(self, path: Path, about: str, edit: Callable[[str], str]) -> None:
        """Apply an edit; a file that cannot be parsed raises an error that names the line."""
        try:
            self._after[path] = edit(self.get_text(path))
        except UnreadableText as error:
            raise build_unreadable_error(path, error.line, error.problem) from None
        self._about.setdefault(path, []).append(about)

    def list_changes(self) -> list[ConfigFileChange]:
        return [
            ConfigFileChange(path, tuple(about), self._before[path], self._get_result(path))
            for path, about in self._about.items()
        ]

    def _get_result(self, path: Path) -> str | None:
        """Return the final text; None deletes a file that we emptied, unless that would break a link."""
        before, after = self._before[path], self._after[path]
        is_blank = not after.removeprefix("\ufeff").strip()
        was_emptied = after != before and not path.is_symlink()
        return None if is_blank and (before is None or was_emptied) else after


class SetupPlanner:
    """Plans how to set up and remove deepwork in clients on this machine."""

    def __init__(self, locations: MachineLocations, load_toolsets: Callable[[], ToolsetCatalog]) -> None:
        self._locations = locations
        self._load_toolsets = load_toolsets

    def plan_setup(self, request: SetupRequest) -> SetupPlan:
        """Plan the changes that make the client start deepwork."""
        client, drafts = request.client, FileDrafts()
        path = self.get_config_path(client, request.scope)
        existing = self._find_entry(client, path, drafts)
        if existing is not None and not is_marked(client.shape, existing) and not request.force:
            raise NotAllowed(
                f"{path} has an entry `deepwork` that `deepwork setup` did not write.",
                suggestion="It is unchanged. Replace it with --force; --print --force shows the new entry.",
            )
        program, notes = self._choose_program(request)
        before = list_arguments(client.shape, existing) if is_marked(client.shape, existing) else []
        choice = choose_toolsets(self._load_toolsets(), request.toolsets or parse_toolsets(before), client)
        folder = self._get_folder_argument(request)
        arguments = build_serve_arguments(folder, choice.named, list_user_arguments(before))
        drafts.edit(path, "server", lambda text: entry.put_entry(client, text, program, arguments))
        notes += self._add_guidance(request, choice, drafts) if request.with_guidance else []
        notes += self._add_hooks(request, program, list_store_arguments(arguments), drafts)
        notes += client.project_notes if request.scope == "project" else ()
        if client.tool_limit is not None and choice.tools > client.tool_limit:
            notes.append(
                f"{choice.tools} tools are on; {client.title} shows {client.tool_limit} across all servers."
            )
        if folder == str(self._locations.project):
            notes.append(
                f"This entry makes {client.title} work on {folder}; for another project, run this there."
            )
        notes += _describe_additions(client, existing) if request.scope == "project" else []
        return SetupPlan(self._require_inside(request, drafts.list_changes()), choice, notes)

    def plan_removal(self, request: SetupRequest) -> SetupPlan:
        """Plan the removal of everything a setup wrote."""
        client, drafts = request.client, FileDrafts()
        notes = self._draft_removal(request, drafts)
        if file := self._get_guidance_path(client, request.scope):
            others = [other.title for other, _ in self._list_sharing_clients(client, request.scope)]
            if others and guidance.has_section(drafts.get_text(file)):
                notes.append(f"The guidance in {file} stays: {', '.join(others)} uses it too.")
            else:
                drafts.edit(file, "guidance", guidance.remove_section)
        changes = [change for change in drafts.list_changes() if change.before is not None]
        return SetupPlan(self._require_inside(request, changes), None, notes)

    def plan_complete_removal(self, scopes: Sequence[SetupScope]) -> SetupPlan:
        """Plan the removal of what setups of all clients wrote; what cannot be removed is a note."""
        drafts, notes = FileDrafts(), []
        for client, scope in product(VENDORS, scopes):
            if not (client.project_file if scope == "project" else client.user_file):
                continue
            try:
                notes += self._draft_removal(SetupRequest(client, scope), drafts)
                if file := self._get_guidance_path(client, scope):
                    drafts.edit(file, "guidance", guidance.remove_section)
            except DeepworkError as error:  # one bad file must not keep the others
                notes.append(f"{error.message} What `deepwork setup {client.name}` wrote into it stays.")
        changed = [each for each in drafts.list_changes() if each.action != "unchanged"]
        inside = [each for each in changed if not self._leads_out(each.path)]
        notes += [
            f"{each.path} is a link that leads out of the project, so it stays."
            for each in changed
            if each not in inside
        ]
        return SetupPlan(inside, None, list(dict.fromkeys(notes)))

    def get_config_path(self, client: Vendor, scope: SetupScope) -> Path:
        """Return the client's config file: of several candidates the first that exists, else the first."""
        places = client.project_file if scope == "project" else client.user_file
        if not places:
            raise InvalidInput(
                f"{client.title} has no config file per project.",
                suggestion="Pass --scope user, or omit --scope.",
            )
        paths = [self._locations.resolve(place) for place in places]
        return next((path for path in paths if path.exists()), paths[0])

    def get_status(self, client: Vendor, scope: SetupScope) -> str:
        """Return whether a client starts deepwork: "yes", "by hand", "no" or "unreadable"."""
        if not (client.project_file if scope == "project" else client.user_file):
            return ""
        path = self.get_config_path(client, scope)
        try:
            existing = entry.find_entry(client, read_text(path) or "")
        except UnreadableText as error:
            return f"unreadable at line {error.line}"
        except DeepworkError:  # one bad file must not hide the other clients; its own setup gives the details
            return "unreadable"
        if existing is None:
            return "no"
        return "yes" if is_marked(client.shape, existing) else "by hand"

    def list_usage_signs(self, client: Vendor) -> list[str]:
        """List programs and folders that show that a client is in use."""
        programs = [found for name in client.programs if (found := self._locations.find_program(name))]
        folders = [path for place in client.folders if (path := self._locations.resolve(place)).is_dir()]
        return [*programs, *map(self._locations.format_path, folders)]

    def format_path(self, path: Path) -> str:
        """Format a path relative to the project or the home folder."""
        return self._locations.format_path(path)

    def _leads_out(self, path: Path) -> bool:
        """Return whether a path in the project is a link out of it: a clone could bring it."""
        project = self._locations.project
        return path.is_relative_to(project) and not path.resolve().is_relative_to(project.resolve())

    def _draft_removal(self, request: SetupRequest, drafts: FileDrafts) -> list[str]:
        """Remove the hooks and the entry of a client from the drafts; return notes."""
        client, path = request.client, self.get_config_path(request.client, request.scope)
        if self._get_hooks_place(request) is not None:
            drafts.edit(self._get_hooks_path(request), "hooks", hook_entries.remove_hooks)
        existing = self._find_entry(client, path, drafts)
        if existing is not None and not is_marked(client.shape, existing) and not request.force:
            unmarked = f"The entry in {path} was not written by `deepwork setup`, so it stays; "
            return [f"{unmarked}`deepwork setup {client.name} --remove --force` removes it."]
        drafts.edit(path, "server", lambda text: entry.remove_entry(client, text))
        return []

    def _require_inside(
        self, request: SetupRequest, changes: list[ConfigFileChange]
    ) -> list[ConfigFileChange]:
        """Refuse links in a project that lead out of it: a clone could bring them, to a file of the user."""
        project = self._locations.project.resolve()
        for change in changes if request.scope == "project" and not request.force else ():
            if change.action != "unchanged" and not change.path.resolve().is_relative_to(project):
                raise NotAllowed(
                    f"{change.path} is a link to {change.path.resolve()}, outside the project.",
                    suggestion="Nothing was changed. Replace the link by a file, or follow it with --force.",
                )
        return changes

    def _find_entry(self, client: Vendor, path: Path, drafts: FileDrafts) -> object:
        try:
            return entry.find_entry(client, drafts.get_text(path))
        except UnreadableText as error:
            raise build_unreadable_error(path, error.line, error.problem) from None

    def _choose_program(self, request: SetupRequest) -> tuple[list[str], list[str]]:
        """Return the command that starts deepwork, and notes about it.

        A project's file is shared with other machines, so it names the program without a path. A user's file
        stays here and names the full path, because a client started from a desktop has another PATH.
        """
        if request.scope == "user" or request.absolute:
            return list(self._locations.program), []
        if self._locations.find_program("deepwork") is None:
            return list(self._locations.program), [_NOT_ON_PATH_NOTE]
        wary = f"If {request.client.title} does not find `deepwork`, run this again with --absolute."
        return ["deepwork"], [wary] if request.client.is_graphical else []

    def _get_folder_argument(self, request: SetupRequest) -> str:
        word = request.client.project_folder if request.scope == "project" else request.client.user_folder
        return word or str(self._locations.project)

    def _add_guidance(self, request: SetupRequest, choice: ToolsetChoice, drafts: FileDrafts) -> list[str]:
        file = self._get_guidance_path(request.client, request.scope)
        if file is None:
            return [f"{request.client.title} does not read a guidance file; {_INSTRUCTIONS_NOTE}"]
        shared = [
            name for _, names in self._list_sharing_clients(request.client, request.scope) for name in names
        ]
        body = guidance.render_section({*choice.toolsets, *shared})
        drafts.edit(file, "guidance", lambda text: guidance.insert_section(text, body))
        return []

    def _add_hooks(
        self, request: SetupRequest, program: list[str], store: list[str], drafts: FileDrafts
    ) -> list[str]:
        known = request.client.hooks
        if known is None:
            return (
                [f"deepwork has no hooks for {request.client.title}; none were written."]
                if request.with_hooks
                else []
            )
        path = self._get_hooks_path(request)
        if not request.with_hooks and not self._has_hooks(path, drafts):
            return []
        drafts.edit(
            path, "hooks", lambda text: hook_entries.insert_hooks(request.client, known, text, program, store)
        )
        return list(known.notes) if request.with_hooks else []

    def _has_hooks(self, path: Path, drafts: FileDrafts) -> bool:
        try:
            return hook_entries.has_hooks(drafts.get_text(path))
        except UnreadableText:  # an unreadable file has no working hooks, and none were requested
            return False

    def _get_hooks_place(self, request: SetupRequest) -> str | None:
        known = request.client.hooks
        return None if known is None else (known.project if request.scope == "project" else known.user)

    def _get_hooks_path(self, request: SetupRequest) -> Path:
        return self._locations.resolve(self._get_hooks_place(request) or "")

    def _get_guidance_path(self, client: Vendor, scope: SetupScope) -> Path | None:
        place = client.project_guidance if scope == "project" else client.user_guidance
        return self._locations.resolve(place) if place else None

    def _list_sharing_clients(
        self, client: Vendor, scope: SetupScope
    ) -> Iterator[tuple[Vendor, tuple[str, ...]]]:
        """List other clients that are set up and read the same guidance file, with their toolsets."""
        mine = self._get_guidance_path(client, scope)
        for other in VENDORS:
            for where in ("project", "user"):
                file = self._get_guidance_path(other, where)
                if (other, where) == (client, scope) or not _is_same_file(file, mine):
                    continue
                if self.get_status(other, where) == "yes":
                    existing = entry.find_entry(other, read_text(self.get_config_path(other, where)) or "")
                    chosen = (
                        parse_toolsets(list_arguments(other.shape, existing))
                        or self._load_toolsets().configured
                    )
                    yield other, self._load_toolsets().expand(chosen)


def _describe_additions(client: Vendor, entry: object) -> list[str]:
    """Name what else is in our entry: an update keeps it, and a clone could have brought it."""
    if not is_marked(client.shape, entry):
        return []
    options = [word for word in list_user_arguments(list_arguments(client.shape, entry)) if word[:1] == "-"]
    names = [word.partition("=")[0] for word in options] + list_user_variables(client.shape, entry)
    if not names:
        return []
    listed = ", ".join(re.sub(r"[^\w-]", "?", name) for name in names)
    return [
        f"The entry keeps what somebody added to it: {listed}. Look at it before you let a client use it."
    ]


def _is_same_file(file: Path | None, other: Path | None) -> bool:
    """Whether two paths name the same file, following links."""
    return file is not None and other is not None and file.resolve() == other.resolve()
