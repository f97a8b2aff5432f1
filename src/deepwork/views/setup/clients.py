"""The supported clients: where each keeps its config files and how it describes an MCP server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Scope = Literal["project", "user"]
Format = Literal["json", "jsonc", "toml"]
Shape = Literal["stdio", "plain", "opencode"]

# Paths begin with a folder name in braces, which `locations.py` resolves.


@dataclass(frozen=True, slots=True)
class ClientHooks:
    """Where a client configures hooks, and its names for our three events."""

    project: str
    user: str
    events: tuple[tuple[str, str], ...]
    """Pairs of the client's event name and ours."""
    timeout: int
    """Ten seconds, in the unit the client uses."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Client:
    """Everything setup needs to know about one client."""

    name: str
    title: str
    section: str
    """The key under which its file lists servers."""
    format: Format
    shape: Shape
    project_file: tuple[str, ...] = ()
    """Candidates for the project's config file: the first that exists is used, else the first."""
    user_file: tuple[str, ...] = ()
    project_folder: str = "."
    """The project folder in a project's file: the client starts servers there or has a variable for it."""
    user_folder: str | None = "."
    """The same in a user's file; None if only an absolute path works."""
    tool_limit: int | None = None
    project_guidance: str | None = None
    user_guidance: str | None = None
    hooks: ClientHooks | None = None
    programs: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    """Folders, in the project or at home, that show that the client is in use."""
    is_graphical: bool = False
    """Whether it is started from a desktop, and therefore without the user's PATH."""
    project_notes: tuple[str, ...] = ()
    next_step: str = ""

    @property
    def default_scope(self) -> Scope:
        return "project" if self.project_file else "user"

    @property
    def entry_path(self) -> tuple[str, str]:
        """The keys that lead to our entry in the file."""
        return (self.section, "deepwork")


CLIENTS = (
    Client(
        name="claude-code",
        title="Claude Code",
        section="mcpServers",
        format="json",
        shape="stdio",
        project_file=("{project}/.mcp.json",),
        user_file=("{claude_json}/.claude.json",),
        project_guidance="{project}/CLAUDE.md",
        user_guidance="{claude}/CLAUDE.md",
        hooks=ClientHooks(
            project="{project}/.claude/settings.json",
            user="{claude}/settings.json",
            events=(("SessionStart", "session-start"), ("PostToolUse", "tool-use"), ("Stop", "stop")),
            timeout=10,
        ),
        programs=("claude",),
        folders=("{project}/.claude", "{claude}"),
        project_notes=("Claude Code asks once before it starts a server from a project's file.",),
        next_step="Start `claude` here, approve the server, and check it with /mcp.",
    ),
    Client(
        name="codex",
        title="Codex",
        section="mcp_servers",
        format="toml",
        shape="plain",
        project_file=("{project}/.codex/config.toml",),
        user_file=("{codex}/config.toml",),
        project_guidance="{project}/AGENTS.md",
        user_guidance="{codex}/AGENTS.md",
        hooks=ClientHooks(
            project="{project}/.codex/hooks.json",
            user="{codex}/hooks.json",
            events=(("SessionStart", "session-start"), ("PostToolUse", "tool-use"), ("Stop", "stop")),
            timeout=10,
            notes=("Codex runs a new or changed hook only after you trust it: see /hooks in Codex.",),
        ),
        programs=("codex",),
        folders=("{project}/.codex", "{codex}"),
        project_notes=("Codex reads the file only if you trust the project; it asks at the first start.",),
        next_step="Start `codex` here, trust the project, and check it with /mcp.",
    ),
    Client(
        name="cursor",
        title="Cursor",
        section="mcpServers",
        format="jsonc",
        shape="plain",
        project_file=("{project}/.cursor/mcp.json",),
        user_file=("{home}/.cursor/mcp.json",),
        project_folder="${workspaceFolder}",
        user_folder=None,
        tool_limit=40,
        project_guidance="{project}/AGENTS.md",
        programs=("cursor", "cursor-agent"),
        folders=("{project}/.cursor", "{home}/.cursor"),
        is_graphical=True,
        next_step="Reload Cursor and enable deepwork under Settings, Tools & MCP.",
    ),
    Client(
        name="vscode",
        title="VS Code",
        section="servers",
        format="jsonc",
        shape="stdio",
        project_file=("{project}/.vscode/mcp.json",),
        user_file=("{apps}/Code/User/mcp.json",),
        project_folder="${workspaceFolder}",
        user_folder=None,
        tool_limit=128,
        project_guidance="{project}/AGENTS.md",
        programs=("code",),
        folders=("{project}/.vscode", "{apps}/Code/User"),
        is_graphical=True,
        next_step="Run `MCP: List Servers` in VS Code, start deepwork and trust it.",
    ),
    Client(
        name="gemini",
        title="Gemini CLI",
        section="mcpServers",
        format="jsonc",
        shape="plain",
        project_file=("{project}/.gemini/settings.json",),
        user_file=("{gemini}/settings.json",),
        project_guidance="{project}/GEMINI.md",
        user_guidance="{gemini}/GEMINI.md",
        hooks=ClientHooks(
            project="{project}/.gemini/settings.json",
            user="{gemini}/settings.json",
            events=(("SessionStart", "session-start"), ("AfterTool", "tool-use"), ("AfterAgent", "stop")),
            timeout=10_000,
            notes=("Gemini CLI has no event after compression, only for a new or resumed session.",),
        ),
        programs=("gemini",),
        folders=("{project}/.gemini", "{gemini}"),
        project_notes=("Gemini CLI starts servers only in trusted folders; it asks at the first start.",),
        next_step="Start `gemini` here, trust the folder, and check it with /mcp.",
    ),
    Client(
        name="opencode",
        title="opencode",
        section="mcp",
        format="jsonc",
        shape="opencode",
        project_file=("{project}/opencode.json", "{project}/opencode.jsonc"),
        user_file=("{config}/opencode/opencode.json", "{config}/opencode/opencode.jsonc"),
        project_guidance="{project}/AGENTS.md",
        user_guidance="{config}/opencode/AGENTS.md",
        programs=("opencode",),
        folders=("{project}/.opencode", "{config}/opencode"),
        next_step="Start `opencode` here; `opencode mcp list` shows whether it connects.",
    ),
    Client(
        name="windsurf",
        title="Windsurf",
        section="mcpServers",
        format="jsonc",
        shape="plain",
        user_file=("{home}/.codeium/windsurf/mcp_config.json",),
        user_folder=None,
        tool_limit=100,
        user_guidance="{project}/AGENTS.md",
        programs=("windsurf",),
        folders=("{home}/.codeium/windsurf",),
        is_graphical=True,
        next_step="Press refresh under MCP servers in Windsurf.",
    ),
    Client(
        name="zed",
        title="Zed",
        section="context_servers",
        format="jsonc",
        shape="plain",
        project_file=("{project}/.zed/settings.json",),
        user_file=("{config}/zed/settings.json",),
        project_guidance="{project}/AGENTS.md",
        programs=("zed", "zeditor"),
        folders=("{project}/.zed", "{config}/zed"),
        is_graphical=True,
        project_notes=("Zed starts a project's servers only after you trust the project.",),
        next_step="Open the agent panel's settings in Zed: deepwork shows a green dot.",
    ),
    Client(
        name="claude-desktop",
        title="Claude Desktop",
        section="mcpServers",
        format="json",
        shape="plain",
        user_file=("{apps}/Claude/claude_desktop_config.json",),
        user_folder=None,
        folders=("{apps}/Claude",),
        is_graphical=True,
        next_step="Restart Claude Desktop.",
    ),
)

BY_NAME = {client.name: client for client in CLIENTS}
