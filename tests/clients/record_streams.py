"""Records what the real clients print, in tests/runner/streams: run it when a new version prints something else.

    python tests/clients/record_streams.py build/clients [claude codex gemini opencode] [--scene task]

Each scene is one start of a client against the scripted model. Paths, ids and keys are replaced, nothing else is changed.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # when started as a program

from clients.model_endpoint import ModelEndpoint
from clients.vendors import KEY, point_at

STREAMS = Path(__file__).parents[1] / "runner" / "streams"
PROMPT = "Write hi into a.txt.\n"
WORK = {"shell": "printf hi > a.txt"}
SCENES: dict[str, list[dict[str, Any]]] = {
    "task": [WORK, {"say": "Wrote a.txt."}],
    "resume": [WORK, {"say": "Wrote a.txt again."}],
    "limit": [WORK, {"limit": 3600, "times": 50}],
    "overloaded": [WORK, {"overloaded": True}, {"say": "Wrote a.txt after an overload."}],
    "denied": [{"denied": True, "times": 50}],
    "hang": [WORK, {"hang": True}],
    "lost": [{"say": "This is not asked: the session does not exist."}],
}
SECONDS = {"hang": 20, "limit": 60}
LOST = {"opencode": "ses_00000000000000000000000000"}
LOST_ID = "00000000-0000-4000-8000-000000000000"
SESSION = re.compile(r'"(?:session_id|thread_id|sessionID)":"([^"]+)"')
IDS = (
    ("uuid", re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")),
    ("ses", re.compile(r"\bses_[A-Za-z0-9]{20,}\b")),
    ("prt", re.compile(r"\bprt_[A-Za-z0-9]{20,}\b")),
    ("msg", re.compile(r"\bmsg_[A-Za-z0-9]{20,}\b")),
    ("hash", re.compile(r"\b[0-9a-f]{40}\b")),
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Record what the real clients print.")
    parser.add_argument("clients", type=Path, help="the folder that `make clients` installs into")
    parser.add_argument("vendors", nargs="*", default=["claude", "codex", "gemini", "opencode"])
    parser.add_argument("--scene", choices=SCENES)
    chosen = parser.parse_args()
    STREAMS.mkdir(parents=True, exist_ok=True)
    for name in chosen.vendors:
        with tempfile.TemporaryDirectory() as folder:
            Recorder(name, Path(folder), chosen.clients.resolve() / "node_modules" / ".bin").record(
                chosen.scene
            )


class Recorder:
    """Plays scenes with one client, one after the other in one tree; all but the first resume its session."""

    def __init__(self, vendor: str, folder: Path, programs: Path) -> None:
        self._name = vendor
        self._folder, self._programs = folder, programs
        self._home, self._tree = folder / "home", folder / "tree"
        self._home.mkdir()
        subprocess.run(["git", "init", "-q", self._tree], check=True)
        self._session: str | None = None

    def record(self, only: str | None) -> None:
        for scene, steps in SCENES.items():
            if only in (None, scene) or scene == "task":
                self._play(scene, scene, steps, {})
        if self._name == "claude" and only in (None, "limit"):
            # What a subscriber sees: only then does the client believe in the headers of its plan.
            token = {"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-" + KEY, "ANTHROPIC_AUTH_TOKEN": ""}
            self._play("limit", "limit_subscription", SCENES["limit"], token)

    def _play(self, scene: str, file: str, steps: list[dict[str, Any]], variables: Mapping[str, str]) -> None:
        with ModelEndpoint(steps, self._folder / "ledger.jsonl") as endpoint:
            vendor = point_at(endpoint.url)[self._name]
            vendor.install(self._home)
            session = LOST.get(self._name, LOST_ID) if scene == "lost" else self._session
            command = vendor.build_command(self._tree, session)
            code, stdout, stderr = self._run(
                command, {**vendor.variables, **variables}, SECONDS.get(scene, 120)
            )
            scrub = Scrubber({str(self._tree): "/project", str(self._home): "/home/ada", endpoint.url: "http://model",
                              str(self._programs.parent): "/usr/lib/node_modules", KEY: "KEY"})  # fmt: skip
        if stdout:
            (STREAMS / f"{self._name}_{file}.jsonl").write_text(scrub.clean(stdout))
        if scene in ("limit", "denied", "lost") and stderr.strip():  # where only standard error says more
            (STREAMS / f"{self._name}_{file}.stderr").write_text(scrub.clean(stderr))
        print(self._name, file, "exit", code, len(stdout.splitlines()), "lines", flush=True)
        found = SESSION.search(stdout)
        self._session = self._session or (found and found.group(1))

    def _run(self, command: list[str], variables: Mapping[str, str], seconds: int) -> tuple[int, str, str]:
        environment = {
            "HOME": str(self._home),
            "PATH": f"{self._programs}{os.pathsep}{os.environ['PATH']}",
            "LANG": "C.UTF-8", "TZ": "UTC", "NO_COLOR": "1", "DISABLE_AUTOUPDATER": "1",
            **variables,
        }  # fmt: skip
        process = subprocess.Popen(
            command, cwd=self._tree, text=True, start_new_session=True,
            env={name: value for name, value in environment.items() if value},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            stdout, stderr = process.communicate(PROMPT, timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                stdout, stderr = process.communicate(timeout=15)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                stdout, stderr = process.communicate()
        return process.returncode, stdout, stderr


class Scrubber:
    """Replaces what belongs to one machine or one session; the same id always becomes the same text."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._ids: dict[str, str] = {}

    def clean(self, text: str) -> str:
        for name, shown in self._names.items():
            text = text.replace(name, shown)
            text = text.replace(re.sub(r"[^A-Za-z0-9]", "-", name), shown.replace("/", "-"))
        text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8000", text)
        for kind, pattern in IDS:
            for found in dict.fromkeys(pattern.findall(text)):
                text = text.replace(found, self._name(kind, found))
        return re.sub(r" {80,}\n?", "", text)

    def _name(self, kind: str, id: str) -> str:
        number = len(self._ids) + 1
        shapes = {"uuid": f"00000000-0000-4000-8000-{number:012}", "hash": f"{number:040}"}
        return self._ids.setdefault(id, shapes.get(kind, f"{kind}_{number:026}"))


if __name__ == "__main__":
    main()
