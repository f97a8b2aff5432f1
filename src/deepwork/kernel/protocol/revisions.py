"""The revisions of MCP, the methods of each, and its error codes.

Until 2025-11-25 a connection starts with `initialize`. 2026-07-28 is stateless: each request carries the
revision and the client's capabilities in `_meta`, its envelope.
"""

from __future__ import annotations

from typing import Final

HANDSHAKE_REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_REVISIONS: Final = ("2026-07-28",)

_RESERVED = "io.modelcontextprotocol/"
REVISION_KEY: Final = f"{_RESERVED}protocolVersion"
CAPABILITIES_KEY: Final = f"{_RESERVED}clientCapabilities"
CLIENT_KEY: Final = f"{_RESERVED}clientInfo"
SERVER_KEY: Final = f"{_RESERVED}serverInfo"
TASKS_EXTENSION: Final = f"{_RESERVED}tasks"

_COMMON = frozenset(
    {
        "completion/complete",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "tools/call",
        "tools/list",
    }
)
HANDSHAKE_METHODS: Final = _COMMON | {"initialize", "logging/setLevel", "ping"}
STATELESS_METHODS: Final = _COMMON | {"server/discover", "tasks/cancel", "tasks/get", "tasks/update"}
CACHEABLE_METHODS: Final = frozenset(
    {
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "server/discover",
        "tools/list",
    }
)
"""Methods of the stateless revisions whose results say how long a client may keep them."""

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
REQUEST_CANCELLED: Final = -32800
HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_REVISION: Final = -32022

HTTP_STATUS: Final = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_REVISION: 400,
    METHOD_NOT_FOUND: 404,
}
"""The HTTP status of an error in the stateless revisions; 200 for other codes."""
