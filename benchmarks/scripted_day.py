"""A scripted day of three agents, to count what deepwork's answers cost: calls, and tokens of arguments and answers.

Run it with `python -m benchmarks.scripted_day`. `--answers FILE` writes every exchange into one file, to read it
as a model does; `--save NAME` writes the figures into benchmarks/scripted_day.json under that name.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from benchmarks.day_project import create_project
from benchmarks.day_scenes import Day, parse_answer, run_day
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from rs_bpe.bpe import openai

FIGURES = Path(__file__).with_suffix(".json")


@dataclass(frozen=True)
class Exchange:
    """A request and its answer, as a model sees them."""

    scene: str
    agent: str
    name: str
    """The tool, or the address of a resource."""
    arguments: str
    answer: str

    def count_tokens(self) -> int:
        return count_tokens(self.name) + count_tokens(self.arguments) + count_tokens(self.answer)


@dataclass
class Recording:
    """All exchanges of a day."""

    exchanges: list[Exchange] = field(default_factory=list)
    list_bytes: int = 0
    """The size of tools/list on the wire."""
    list_tokens: int = 0
    instruction_tokens: int = 0
    scene: str = ""

    def begin_scene(self, name: str) -> None:
        self.scene = name

    def add(self, agent: str, name: str, arguments: dict[str, Any], answer: str) -> None:
        shown = json.dumps(arguments, separators=(",", ":"), ensure_ascii=False)
        self.exchanges.append(Exchange(self.scene, agent, name, shown, answer))

    def build_figures(self) -> dict[str, Any]:
        """Build calls and tokens of each scene, and of the whole day."""
        scenes: dict[str, dict[str, int]] = {}
        for exchange in self.exchanges:
            scene = scenes.setdefault(exchange.scene, {"calls": 0, "tokens": 0})
            scene["calls"] += 1
            scene["tokens"] += exchange.count_tokens()
        return {
            "scenes": scenes,
            "calls": len(self.exchanges),
            "tokens": sum(scene["tokens"] for scene in scenes.values()),
            "tools_list_tokens": self.list_tokens,
            "tools_list_bytes": self.list_bytes,
            "instructions_tokens": self.instruction_tokens,
        }


class RecordedSession:
    """A client of its own server process, whose exchanges are recorded."""

    def __init__(self, name: str, client: Client[Any], recording: Recording, tools: dict[str, Any]) -> None:
        self.name = name
        self._client, self._recording, self._tools = client, recording, tools

    async def call(self, tool: str, **arguments: Any) -> Any:
        result = await self._client.call_tool(tool, arguments, raise_on_error=False)
        text = "".join(getattr(part, "text", "") for part in result.content)
        self._recording.add(self.name, tool, arguments, text)
        return parse_answer(text)

    async def read(self, uri: str) -> str:
        parts = await self._client.read_resource(uri)
        text = "".join(getattr(part, "text", "") for part in parts)
        self._recording.add(self.name, uri, {}, text)
        return text

    def takes(self, tool: str, parameter: str) -> bool:
        return parameter in self._tools[tool]["properties"]


def count_tokens(text: str) -> int:
    return int(openai.o200k_base().count(text))


def record_day(folder: Path) -> Recording:
    """Run the day in a new project in this folder."""
    project, programs = folder / "shop", folder / "programs"
    project.mkdir()
    create_project(project, programs)
    recording = Recording()
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"

    @asynccontextmanager
    async def open_session(name: str, lease_seconds: int = 90) -> AsyncIterator[RecordedSession]:
        words = ["-P", "-m", "deepwork", "serve", "--log-level", "warning", "--external-runner", "claude"]
        environment = {**os.environ, "PATH": path, "DEEPWORK_LEASE_SECONDS": str(lease_seconds)}
        arguments = [*words, "--path", str(project)]
        transport = StdioTransport(sys.executable, arguments, env=environment, keep_alive=False)
        async with Client(transport) as client:
            yield RecordedSession(name, client, recording, await _read_tools(client, recording))

    anyio.run(run_day, Day(project, open_session, recording.begin_scene))
    return recording


async def _read_tools(client: Client[Any], recording: Recording) -> dict[str, Any]:
    """Return the input schemas by tool; record what the list and the instructions cost a session."""
    tools = await client.list_tools()
    shown = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
    text = json.dumps(shown, separators=(",", ":"), ensure_ascii=False)
    recording.list_bytes, recording.list_tokens = len(text.encode()), count_tokens(text)
    recording.instruction_tokens = count_tokens(client.instructions or "")
    return {tool["name"]: tool["inputSchema"] for tool in shown}


def format_table(figures: dict[str, Any]) -> str:
    rows = [("scene", "calls", "tokens")]
    rows += [(name, scene["calls"], scene["tokens"]) for name, scene in figures["scenes"].items()]
    rows.append(("the day", figures["calls"], figures["tokens"]))
    lines = [f"{name:<28}{calls:>7}{tokens:>9}" for name, calls, tokens in rows]
    session = f"{figures['tools_list_tokens']} tokens, {figures['tools_list_bytes']} bytes"
    lines.append(
        f"In every session: tools/list {session}; instructions {figures['instructions_tokens']} tokens."
    )
    return "\n".join(lines)


def format_answers(recording: Recording, folder: Path) -> str:
    """Format every exchange, without the folder and random ids, so that two days can be compared."""
    parts = [
        f"## {number}. {each.scene}: {each.agent} {each.name} ({each.count_tokens()} tokens)\n"
        f"{each.arguments}\n{each.answer}\n"
        for number, each in enumerate(recording.exchanges, 1)
    ]
    return _number_ids("\n".join(parts).replace(str(folder), "…"))


def _number_ids(text: str) -> str:
    numbers: dict[str, str] = {}

    def replace(found: re.Match[str]) -> str:
        return numbers.setdefault(found[0], f"{found[1]}_{len(numbers) + 1:012}")

    return re.sub(r"\b([a-z]{2,4})_[0-9a-z]{12}\b", replace, text)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scripted_day", description=__doc__)
    parser.add_argument("--answers", type=Path, metavar="FILE", help="write every exchange into this file")
    parser.add_argument("--save", metavar="NAME", help=f"save the figures in {FIGURES.name} under this name")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="deepwork-day-") as folder:
        recording = record_day(Path(folder))
        if options.answers:
            options.answers.write_text(format_answers(recording, Path(folder)), encoding="utf-8")
    figures = recording.build_figures()
    print(format_table(figures))
    if options.save:
        save_figures(FIGURES, options.save, figures)
    return 0


def save_figures(path: Path, name: str, figures: dict[str, Any]) -> None:
    saved = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps(saved | {name: figures}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
