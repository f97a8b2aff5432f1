"""The programs in which people use models: everything that deepwork knows about each, as data.

Setup, hooks, settings, the runner and exports ask this table. How the runner starts a program and reads its
stream is code: `delivery/runner/adapters/` has a module for each kind of agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

SetupScope = Literal["project", "user"]
FileFormat = Literal["json", "jsonc", "toml"]
EntryShape = Literal["stdio", "plain", "opencode"]

# Paths begin with a folder name in braces: `project`, `home`, `config`, `apps`, or one of `home_folders`.


class VendorHooks(NamedTuple):
    """Where a program configures hooks, and its names for our three events."""

    project: str
    user: str
    events: Mapping[str, str]
    """Our event names, and the program's."""
    timeout: int
    """Ten seconds, in the unit the program uses."""
    notes: tuple[str, ...] = ()
    block_decision: str = "block"
    """The word that keeps an agent from stopping."""


class AgentKind(NamedTuple):
    """A program that `deepwork run` can start as an agent."""

    name: str
    """The kind in `agents.yml`, which is also the name of the program and of the module of its adapter."""
    package: str
    """The npm package of the program."""
    tested_versions: tuple[str, ...]
    keys: Mapping[str, tuple[str, ...]]
    """What its profiles may say: the values of each key, () for any; other keys have no meaning."""
    env: tuple[str, ...]
    """The variables that a profile without `env` gets."""
    model_provider: str | None = None
    """Who makes its models, if their names do not say it."""


class Vendor(NamedTuple):
    """One program of a vendor."""

    name: str
    title: str
    section: str
    """The key under which its file lists servers."""
    format: FileFormat
    shape: EntryShape
    platform: str = ""
    """The name of its output format in our settings, if it is not its own name."""
    agent: AgentKind | None = None
    project_file: tuple[str, ...] = ()
    """Candidates for the project's config file: the first that exists is used, else the first."""
    user_file: tuple[str, ...] = ()
    home_folders: Mapping[str, tuple[str, str]] = {}
    """Its own folders: the variable that names one, and where it is otherwise, below the home folder."""
    project_folder: str = "."
    """The project folder in a project's file: the program starts servers there or has a variable for it."""
    user_folder: str | None = "."
    """The same in a user's file; None if only an absolute path works."""
    tool_limit: int | None = None
    project_guidance: str | None = None
    user_guidance: str | None = None
    hooks: VendorHooks | None = None
    programs: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    """Folders, in the project or at home, that show that the program is in use."""
    is_graphical: bool = False
    """Whether it is started from a desktop, and therefore without the user's PATH."""
    project_notes: tuple[str, ...] = ()
    next_step: str = ""

    @property
    def runtime(self) -> str:
        """The runtime of its agents."""
        return self.name.replace("-", "_")

    @property
    def default_scope(self) -> SetupScope:
        return "project" if self.project_file else "user"

    @property
    def entry_path(self) -> tuple[str, str]:
        """The keys that lead to our entry in the file."""
        return (self.section, "deepwork")


VENDORS: Final = (
    Vendor(
        name="claude-code",
        title="Claude Code",
        section="mcpServers",
        format="json",
        shape="stdio",
        platform="claude",
        agent=AgentKind(
            name="claude",
            package="@anthropic-ai/claude-code",
            tested_versions=("2.1.197",),
            keys={
                "model": (),
                "permission": ("default", "acceptEdits", "auto", "dontAsk", "plan", "bypassPermissions"),
                "allow": (),
            },
            env=(
                "ANTHROPIC_API_KEY",
                "ANTHROPIC_AUTH_TOKEN",
                "ANTHROPIC_BASE_URL",
                "CLAUDE_CODE_OAUTH_TOKEN",
                "CLAUDE_CONFIG_DIR",
            ),
            model_provider="anthropic",
        ),
        project_file=("{project}/.mcp.json",),
        user_file=("{claude_json}/.claude.json",),
        home_folders={"claude": ("CLAUDE_CONFIG_DIR", ".claude"), "claude_json": ("CLAUDE_CONFIG_DIR", "")},
        project_guidance="{project}/CLAUDE.md",
        user_guidance="{claude}/CLAUDE.md",
        hooks=VendorHooks(
            project="{project}/.claude/settings.json",
            user="{claude}/settings.json",
            events={"session-start": "SessionStart", "tool-use": "PostToolUse", "stop": "Stop"},
            timeout=10,
        ),
        programs=("claude",),
        folders=("{project}/.claude", "{claude}"),
        project_notes=("Claude Code asks once before it starts a server from a project's file.",),
        next_step="Start `claude` here, approve the server, and check it with /mcp.",
    ),
    Vendor(
        name="codex",
        title="Codex",
        section="mcp_servers",
        format="toml",
        shape="plain",
        agent=AgentKind(
            name="codex",
            package="@openai/codex",
            tested_versions=("0.169.0",),
            keys={"model": (), "sandbox": ("read-only", "workspace-write", "danger-full-access")},
            env=("CODEX_API_KEY", "CODEX_HOME", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
            model_provider="openai",
        ),
        project_file=("{project}/.codex/config.toml",),
        user_file=("{codex}/config.toml",),
        home_folders={"codex": ("CODEX_HOME", ".codex")},
        project_guidance="{project}/AGENTS.md",
        user_guidance="{codex}/AGENTS.md",
        hooks=VendorHooks(
            project="{project}/.codex/hooks.json",
            user="{codex}/hooks.json",
            events={"session-start": "SessionStart", "tool-use": "PostToolUse", "stop": "Stop"},
            timeout=10,
            notes=("Codex runs a new or changed hook only after you trust it: see /hooks in Codex.",),
        ),
        programs=("codex",),
        folders=("{project}/.codex", "{codex}"),
        project_notes=("Codex reads the file only if you trust the project; it asks at the first start.",),
        next_step="Start `codex` here, trust the project, and check it with /mcp.",
    ),
    Vendor(
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
    Vendor(
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
    Vendor(
        name="gemini",
        title="Gemini CLI",
        section="mcpServers",
        format="jsonc",
        shape="plain",
        agent=AgentKind(
            name="gemini",
            package="@google/gemini-cli",
            tested_versions=("0.61.0",),
            keys={
                "model": (),
                "permission": ("default", "auto_edit", "yolo", "plan"),
                "allow": (),
                "sandbox": ("true", "false", "docker", "podman", "sandbox-exec"),
            },
            env=(
                "GEMINI_API_KEY",
                "GOOGLE_API_KEY",
                "GOOGLE_CLOUD_LOCATION",
                "GOOGLE_CLOUD_PROJECT",
                "GOOGLE_GEMINI_BASE_URL",
                "GOOGLE_GENAI_USE_VERTEXAI",
            ),
            model_provider="google",
        ),
        project_file=("{project}/.gemini/settings.json",),
        user_file=("{gemini}/.gemini/settings.json",),
        home_folders={"gemini": ("GEMINI_CLI_HOME", "")},
        project_guidance="{project}/GEMINI.md",
        user_guidance="{gemini}/.gemini/GEMINI.md",
        hooks=VendorHooks(
            project="{project}/.gemini/settings.json",
            user="{gemini}/.gemini/settings.json",
            events={"session-start": "SessionStart", "tool-use": "AfterTool", "stop": "AfterAgent"},
            timeout=10_000,
            notes=("Gemini CLI has no event after compression, only for a new or resumed session.",),
            block_decision="deny",
        ),
        programs=("gemini",),
        folders=("{project}/.gemini", "{gemini}/.gemini"),
        project_notes=("Gemini CLI starts servers only in trusted folders; it asks at the first start.",),
        next_step="Start `gemini` here, trust the folder, and check it with /mcp.",
    ),
    Vendor(
        name="opencode",
        title="opencode",
        section="mcp",
        format="jsonc",
        shape="opencode",
        agent=AgentKind(
            name="opencode",
            package="opencode-ai",
            tested_versions=("1.18.33",),
            keys={"model": (), "permission": ("allow", "ask", "deny")},
            env=(
                "ANTHROPIC_API_KEY",
                "GEMINI_API_KEY",
                "OPENAI_API_KEY",
                "OPENCODE_API_KEY",
                "OPENCODE_CONFIG",
                "OPENCODE_CONFIG_DIR",
                "OPENROUTER_API_KEY",
            ),
        ),
        project_file=("{project}/opencode.json", "{project}/opencode.jsonc"),
        user_file=("{config}/opencode/opencode.json", "{config}/opencode/opencode.jsonc"),
        project_guidance="{project}/AGENTS.md",
        user_guidance="{config}/opencode/AGENTS.md",
        programs=("opencode",),
        folders=("{project}/.opencode", "{config}/opencode"),
        next_step="Start `opencode` here; `opencode mcp list` shows whether it connects.",
    ),
    Vendor(
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
    Vendor(
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
    Vendor(
        name="claude-desktop",
        title="Claude Desktop",
        section="mcpServers",
        format="json",
        shape="plain",
        platform="claude",
        user_file=("{apps}/Claude/claude_desktop_config.json",),
        user_folder=None,
        folders=("{apps}/Claude",),
        is_graphical=True,
        next_step="Restart Claude Desktop.",
    ),
)
BY_NAME: Final = {vendor.name: vendor for vendor in VENDORS}
AGENT_KINDS: Final = {vendor.agent.name: vendor.agent for vendor in VENDORS if vendor.agent}
"""The kinds of agents, in the order in which the built-in chain prefers them."""
RUNTIMES: Final = {vendor.agent.name: vendor.runtime for vendor in VENDORS if vendor.agent}
"""The runtimes of agents, by their kinds."""
PLATFORM_BY_NAME: Final = {
    name: vendor.platform or vendor.name for vendor in VENDORS for name in (vendor.name, vendor.runtime)
}
"""The platforms of programs, by their names and runtimes."""
