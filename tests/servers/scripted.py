"""Scripted MCP server with the 2025 handshake, without the SDK so that it starts at once.

    python scripted.py TOOLS [TROUBLE]

TOOLS is a JSON file of tools, read at every start. The server appends its process id to the file named by $PIDS.
"""

import json
import os
import sys
import time
from pathlib import Path

tools = json.loads(Path(sys.argv[1]).read_text())
trouble = sys.argv[2] if len(sys.argv) > 2 else ""
if "PIDS" in os.environ:
    with open(os.environ["PIDS"], "a") as pids:
        pids.write(f"{os.getpid()}\n")

MODERN = {"resultType": "complete", "cacheScope": "private", "ttlMs": 0}
"""What each result has besides from the protocol of 2026 on."""


def answer(request, **result):
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **result}), flush=True)


for line in sys.stdin:
    request = json.loads(line)
    match request["method"]:
        case "server/discover" if trouble == "modern":
            info = {"name": "scripted", "version": "1"}
            found = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "serverInfo": info}
            answer(request, result=found | MODERN)
        case "initialize":
            version = request["params"]["protocolVersion"]
            info = {"name": "scripted", "version": "1"}
            capabilities = {} if trouble == "toolless" else {"tools": {}}
            answer(request, result={"protocolVersion": version, "capabilities": capabilities, "serverInfo": info})
        case "tools/list":
            match trouble:
                case "hangs":
                    time.sleep(600)
                case "waits":  # but leaves when its input ends
                    continue
                case "dies":
                    sys.exit(f"cannot log in with {os.environ.get('KEY')}")
                case "garbage":
                    print("Traceback: no JSON\n\x1b[31m{]", flush=True)
                    answer(request, result={"tools": {"name": "half"}})
                    continue
                case "half":
                    answer(request, result={"tools": [{"name": "half", "description": "\ud83d"}]})
                    continue
                case "refuses":
                    answer(request, error={"code": -32603, "message": f"the key {os.environ.get('KEY')} is revoked"})
                    continue
                case "noisy":
                    print("\n".join(["listening"] * 10_000), file=sys.stderr, flush=True)
            at = int((request.get("params") or {}).get("cursor") or 0)
            size = 2 if trouble in ("pages", "circle") else len(tools)
            following = 0 if trouble == "circle" else at + size
            more = {"nextCursor": str(following)} if following < len(tools) and trouble else {}
            if trouble == "pages" and not more:
                more = {"nextCursor": ""}
            if trouble == "modern":
                more |= MODERN
            answer(request, result={"tools": tools[at : at + size], **more})
        case _ if "id" in request:
            answer(request, error={"code": -32601, "message": "unknown method"})
