"""The agents that this user can start, and their programs.

They are built in, or written in `agents.yml` of the user's own folder.

A repository cannot define one, because profiles are executed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any, Final

from deepwork.kernel.environment import build_child_environment, get_user_folder
from deepwork.kernel.errors import InvalidInput, NotAllowed
from deepwork.kernel.files.private import read_private_file
from deepwork.kernel.files.problems import MAX_PROBLEMS, DefinitionProblem, FileProblem, InvalidDefinition
from deepwork.kernel.records import dataclass
from deepwork.kernel.vendors import AGENT_KINDS, AgentKind

if TYPE_CHECKING:
    from deepwork.delivery.runner.profile_file import AgentDefinition, ProfileFileDefinition
    from deepwork.kernel.files.yaml import YamlDocument


PROMPT_FILE_FIELD: Final = "{prompt_file}"
"""In the words of a command: the path of the file with the prompt."""
DEFAULT_CHAIN: Final = "default"
_CONNECTION_VARIABLES = {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"}


COMMAND_KIND: Final = "command"
"""The kind of agents that are any command."""
_KEYS = {kind.name: kind.keys for kind in AGENT_KINDS.values()} | {COMMAND_KIND: {"run": ()}}
_SETTING_KEYS = ("model", "permission", "allow", "sandbox", "run")
_MAX_PACKAGE_BYTES = 2**20
_VERSION_PATTERN = re.compile(r"v?(\d+\.\d+\.\d+[\w.+-]*)")


@dataclass(frozen=True)
class AgentProfile:
    """How to start one agent."""

    name: str
    kind: str
    model: str | None = None
    permission: str | None = None
    allow: tuple[str, ...] = ()
    sandbox: str | None = None
    env: tuple[str, ...] = ()
    """The names of the variables that it gets."""
    run: tuple[str, ...] = ()
    """The words of the command, for the kind `command`."""


@dataclass(frozen=True)
class ProfileCatalog:
    """The agents and chains of this user."""

    path: Path
    """The file that may define more of them."""
    agents: Mapping[str, AgentProfile]
    chains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    named: frozenset[str] = frozenset()
    """The agents that the file defines or names in a chain."""

    def get_agent(self, name_or_command: str) -> AgentProfile:
        """Return the agent with this name, or one that runs this command line."""
        if is_command_line(name_or_command):
            return build_command_profile(name_or_command)
        if name_or_command not in self.agents:
            raise self._build_unknown_error("agent", name_or_command, self.agents)
        return self.agents[name_or_command]

    def get_chain(self, name: str) -> tuple[AgentProfile, ...]:
        """Return the agents of a chain, the first one first."""
        if name not in self.chains:
            raise self._build_unknown_error("chain", name, self.chains)
        return tuple(self.agents[each] for each in self.chains[name])

    def _build_unknown_error(self, kind: str, name: str, known: Iterable[str]) -> InvalidInput:
        return InvalidInput(
            f"There is no {kind} {name[:200]!r}; known: {', '.join(sorted(known))}.",
            suggestion=f"Use one of these, or add it to {self.path}.",
        )


def get_profile_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the user's profiles."""
    return get_user_folder(environment) / "agents.yml"


def load_catalog(environment: Mapping[str, str] = os.environ) -> ProfileCatalog:
    """Load the agents of this user: the built-in ones, and those of `agents.yml`.

    Raises StorageError if others may write the file, and InvalidDefinition for anything wrong in it.
    """
    path = get_profile_path(environment)
    content = read_private_file(path)
    written, chains = _parse_file(content, str(path)) if content is not None else ({}, {})
    agents = {
        kind.name: AgentProfile(kind.name, kind.name, env=kind.env) for kind in AGENT_KINDS.values()
    } | written
    named = frozenset(written).union(*chains.values())
    return ProfileCatalog(path, agents, {DEFAULT_CHAIN: (_choose_default(environment),)} | chains, named)


def is_command_line(text: str) -> bool:
    """Return whether `--agent` is a command line, not a name: it has a space or the prompt file's field."""
    return PROMPT_FILE_FIELD in text or any(map(str.isspace, text))


def build_command_profile(line: str) -> AgentProfile:
    """Build the profile of a command line, which is also its name; no shell reads it."""
    try:
        words = tuple(shlex.split(line))
    except ValueError as error:
        raise InvalidInput(
            f"The command line {line[:200]!r} cannot be read: {error}.", suggestion="Close every quote."
        ) from None
    if not words or not words[0] or "\0" in line:
        raise InvalidInput("The command line names no program.", suggestion="Write one, or an agent's name.")
    return AgentProfile(line, COMMAND_KIND, run=words)


def build_agent_environment(
    profile: AgentProfile, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Build the environment of an agent: a few harmless variables, and those that its profile names."""
    more = {
        key: value
        for key, value in environment.items()
        if key in profile.env or key.startswith("XDG_") or key.upper() in _CONNECTION_VARIABLES
    }
    return build_child_environment(environment) | more


def _choose_default(environment: Mapping[str, str]) -> str:
    """Choose the first built-in agent that is installed; work is never handed to a second vendor unasked."""
    path = environment.get("PATH", os.defpath)
    return next((name for name in AGENT_KINDS if which(name, path=path)), next(iter(AGENT_KINDS)))


# The file


def _parse_file(content: bytes, source: str) -> tuple[dict[str, AgentProfile], dict[str, tuple[str, ...]]]:
    # Imported here, because most users have no such file.
    from deepwork.delivery.runner.profile_file import ProfileFileDefinition  # noqa: PLC0415
    from deepwork.kernel.files.definition_models import validate_data  # noqa: PLC0415

    document = _load_document(content, source)
    model, problems = validate_data(ProfileFileDefinition, _drop_empty_keys(document.data))
    if model is not None:
        problems = list(_find_problems(model))
    if model is None or problems:
        raise InvalidDefinition(*map(document.locate, problems[:MAX_PROBLEMS]))
    agents = {name: _build_profile(name, defined) for name, defined in model.agents.items()}
    return agents, {name: tuple(names) for name, names in model.chains.items()}


def _load_document(content: bytes, source: str) -> YamlDocument:
    from deepwork.kernel.files.yaml import load_yaml  # noqa: PLC0415

    try:
        return load_yaml(content.decode("utf-8-sig"), source=source)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problem = FileProblem(source, line, "The text is not UTF-8; save the file as UTF-8.")
        raise InvalidDefinition(problem) from None


def _drop_empty_keys(data: Any) -> Any:
    """Let a key without a value count as not written, as in a file whose entries are all comments."""
    if not isinstance(data, dict):
        return {} if data is None else data
    return {key: value for key, value in data.items() if value is not None}


def _find_problems(file: ProfileFileDefinition) -> Iterator[DefinitionProblem]:
    """Find the problems that concern several keys."""
    for name, agent in file.agents.items():
        yield from _find_agent_problems(name, agent)
    known = [*AGENT_KINDS, *file.agents]
    for chain, names in file.chains.items():
        yield from _find_chain_problems(chain, names, known)


def _find_agent_problems(name: str, agent: AgentDefinition) -> Iterator[DefinitionProblem]:
    where = ("agents", name)
    kind = _get_kind(name, agent)
    if kind not in _KEYS:
        yield DefinitionProblem(where, "the key 'kind' is missing", f"allowed: {', '.join(_KEYS)}")
        return
    for key in _SETTING_KEYS:
        if key in agent.model_fields_set:
            yield from _find_key_problems((*where, key), kind, key, getattr(agent, key))
    if kind == COMMAND_KIND and not agent.run:
        yield DefinitionProblem(where, "the key 'run' is missing", "write the command as a list of words")
    if agent.run and not agent.run[0].strip():
        yield DefinitionProblem((*where, "run", 0), "the program has no name", "name it first")


def _get_kind(name: str, agent: AgentDefinition) -> str:
    """Return the kind of an agent; one with a built-in name has its kind."""
    return agent.kind if "kind" in agent.model_fields_set else name


def _find_key_problems(
    where: tuple[str, ...], kind: str, key: str, value: str | list[str]
) -> Iterator[DefinitionProblem]:
    keys = _KEYS[kind]
    if key not in keys:
        others = ", ".join(other for other, allowed in _KEYS.items() if key in allowed)
        yield DefinitionProblem(where, f"agents of kind {kind} have no {key}", f"it is for {others}")
    elif keys[key] and value not in keys[key]:
        yield DefinitionProblem(where, f"{value[:80]!r} is not known", f"allowed: {', '.join(keys[key])}")


def _find_chain_problems(chain: str, names: list[str], known: list[str]) -> Iterator[DefinitionProblem]:
    if not names:
        yield DefinitionProblem(("chains", chain), "this chain is empty", "name at least one agent")
    for at, name in enumerate(names):
        where = ("chains", chain, at)
        if name not in known:
            listed = ", ".join(sorted(set(known)))
            yield DefinitionProblem(where, f"there is no agent {name!r}", f"known: {listed}")
        elif name in names[:at]:
            yield DefinitionProblem(where, f"{name!r} occurs twice", "name each agent once")


def _build_profile(name: str, defined: AgentDefinition) -> AgentProfile:
    kind = _get_kind(name, defined)
    has_env = "env" in defined.model_fields_set or kind == COMMAND_KIND
    return AgentProfile(
        name=name,
        kind=kind,
        model=defined.model or None,
        permission=defined.permission or None,
        allow=tuple(defined.allow),
        sandbox=defined.sandbox or None,
        env=tuple(dict.fromkeys(defined.env))
        if has_env
        else AGENT_KINDS[kind].env
        if kind in AGENT_KINDS
        else (),
        run=tuple(defined.run),
    )


def find_program(profile: AgentProfile, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the program that a profile starts, None if it is not installed."""
    name = profile.run[0] if profile.run else profile.kind
    found = which(name, path=environment.get("PATH", os.defpath))
    return Path(found) if found else None


def require_program(profile: AgentProfile, environment: Mapping[str, str] = os.environ) -> None:
    """Raise NotAllowed if the program of a profile is not installed."""
    name = profile.run[0] if profile.run else profile.kind
    if "/" in name and not Path(name).is_absolute():  # in the tree, which may not exist yet
        return
    if find_program(profile, environment) is None:
        raise NotAllowed(
            f"The agent {profile.name!r} cannot be started: there is no program {name!r} on the PATH.",
            suggestion="Install it, or choose another agent; `deepwork doctor` lists those on this machine.",
        )


def require_any_agent(catalog: ProfileCatalog, environment: Mapping[str, str] = os.environ) -> None:
    """Raise NotAllowed if no agent of this user is installed, with what was looked for."""
    if any(find_program(profile, environment) for profile in catalog.agents.values()):
        return
    looked_for = list(
        dict.fromkeys(each.run[0] if each.run else each.kind for each in catalog.agents.values())
    )
    raise NotAllowed(
        f"No agent is installed: there is no {', no '.join(looked_for)} on the PATH.",
        suggestion=f"Install one of these, or describe another command in {catalog.path}.",
    )


def read_version(kind: AgentKind, program: Path) -> str | None:
    """Return the version of a vendor's program as its installation says; None if it does not."""
    real = program.resolve()
    for folder in real.parents[:6]:
        if version := _read_package(folder / "package.json", kind.package):
            return version
    # Native installers and Homebrew keep each version under its number.
    numbers = [match[1] for part in real.parts if (match := _VERSION_PATTERN.fullmatch(part))]
    return numbers[-1] if numbers else None


def _read_package(path: Path, name: str) -> str | None:
    """Return the version in a package.json, if it is that of the package with this name."""
    try:
        with path.open("rb") as file:
            data = json.loads(file.read(_MAX_PACKAGE_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.get("name") != name or not isinstance(data.get("version"), str):
        return None
    return data["version"] if _VERSION_PATTERN.fullmatch(data["version"]) else None
