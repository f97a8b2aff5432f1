"""The yardstick: a bare FastMCP server with one echo tool, over standard input and output or HTTP."""

from __future__ import annotations

import os
import sys

os.environ["FASTMCP_ENV_FILE"] = os.devnull
os.environ["FASTMCP_LOG_ENABLED"] = "false"

from fastmcp import FastMCP

mcp: FastMCP = FastMCP("echo")


@mcp.tool
def echo(text: str) -> dict[str, str]:
    """Return the text."""
    return {"text": text}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        # With httptools and uvloop where they are installed, as deepwork has them: neither may have an advantage.
        uvicorn = {"log_level": "error", "timeout_keep_alive": 60}
        mcp.run(
            "http",
            show_banner=False,
            host="127.0.0.1",
            port=int(sys.argv[1]),
            json_response=True,
            uvicorn_config=uvicorn,
        )
    else:
        mcp.run(show_banner=False)
