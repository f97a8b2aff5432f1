"""The lower bound: hand-written JSON-RPC over standard input and output with one echo tool."""

from __future__ import annotations

import json
import sys


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result: dict[str, object] = {}
        if request["method"] == "tools/call":
            text = json.dumps(request["params"]["arguments"])
            result = {"content": [{"type": "text", "text": text}], "isError": False}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
