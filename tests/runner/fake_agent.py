"""A scripted agent: it does what a file says, and writes the stream of any vendor.

    fake_agent.py --script FILE [--as claude|codex|gemini|opencode|command] [the arguments of that vendor]

The script is JSON: `ledger` and `home` are paths, `names` maps ids of tasks to names, `tasks` maps names to a list of
starts: the first process for a task does the first, the second the second, and so on; the last one is repeated.
Each is a list of steps such as `{"do": "append", "file": "a.txt", "line": "one"}`; the methods of `Steps` are all of them.

A resumed session goes on after the last step that it has finished, as an agent does that knows what it did.
Every process writes to the ledger, flushed to disk: its start, what it is about to report as used, that it has
reported it, its end. Two processes that work on one task at the same time are written there too.
Only the standard library, and no site packages: it starts in 30 ms.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).parents[1]))

from runner.fake_streams import STREAMS, Stream, Used, encode_line

SIGTERM_CODE = 143


def main() -> None:
    arguments = sys.argv[1:]
    script = json.loads(Path(_take_option(arguments, "--script")).read_text())
    stream = STREAMS[_take_option(arguments, "--as", "command")](arguments)
    if "--version" in arguments:
        print(script.get("version", "1.0.0"))
        return
    Agent(script, stream).run()


def _take_option(arguments: list[str], name: str, default: str = "") -> str:
    if name not in arguments:
        return default
    place = arguments.index(name)
    _, value = arguments.pop(place), arguments.pop(place)
    return value


class Ledger:
    """What this process did, one JSON object per line of a file that all processes share."""

    def __init__(self, path: str, **about: Any) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._about = about

    def write(self, event: str, **more: Any) -> None:
        entry = {"event": event, "at": time.monotonic(), **self._about, **more}
        os.write(self._file, json.dumps(entry).encode() + b"\n")
        os.fsync(self._file)


class Agent:
    """One process of an agent that works on one task."""

    def __init__(self, script: dict[str, Any], stream: Stream) -> None:
        self.stream = stream
        self.prompt = _read_prompt()
        self._home = Path(script["home"])
        self._home.mkdir(parents=True, exist_ok=True)
        task = os.environ.get("DEEPWORK_TASK", "")
        self.name = script["names"].get(task) or self._find_name(script)
        self._number = _count_starts(self._home / f"{self.name}.starts")
        starts = script["tasks"][self.name]
        self._place = min(self._number, len(starts)) - 1
        self._steps: list[dict[str, Any]] = starts[self._place]
        self._next = 0
        self._reports = 0
        self._is_forgotten = False
        self.ledger = Ledger(
            script["ledger"],
            pid=os.getpid(),
            task=task,
            name=self.name,
            attempt=os.environ.get("DEEPWORK_ATTEMPT", ""),
            run=os.environ.get("DEEPWORK_RUN", ""),
            session=stream.session,
        )

    def run(self) -> NoReturn:
        """Do the steps; exit as the last one says, or with 0."""
        signal.signal(signal.SIGTERM, lambda *_: self.leave(SIGTERM_CODE))
        self._write_start()
        self._hold_task()
        done = self._load_session()
        self.emit(self.stream.begin(str(Path.cwd())))
        steps = Steps(self)
        for place in range(done, len(self._steps)):
            self._next = place
            self.save_session()
            step = dict(self._steps[place])
            getattr(steps, step.pop("do"))(**step)
        steps.exit()

    def emit(self, lines: list[Any]) -> None:
        """Write lines, each at once: a kill leaves a whole line or nothing."""
        for line in lines:
            write_all(1, encode_line(line))

    def report(self, used: Used, lines: list[Any]) -> None:
        """Write lines that report usage: the ledger says before and after, so that a kill between them shows."""
        self._reports += 1
        self.ledger.write("reporting", report=self._reports, **vars(used))
        self.emit(lines)
        self.save_session()
        self.ledger.write("reported", report=self._reports)

    def end(self, lines: list[Any], *, is_error: bool = True) -> None:
        """Write the vendor's last lines."""
        self.report(self.stream.settle(is_error=is_error), lines)

    def forget(self) -> None:
        """Lose the session: it cannot be resumed."""
        self._is_forgotten = True
        (self._home / f"{self.stream.session}.session").unlink(missing_ok=True)

    def pass_step(self) -> None:
        """Let a resumed session go on behind this step."""
        self._next += 1
        self.save_session()

    def leave(self, code: int) -> NoReturn:
        self.ledger.write("end", code=code)
        os._exit(code)

    def _write_start(self) -> None:
        ours = {name: value for name, value in os.environ.items() if name.startswith("DEEPWORK_")}
        self.ledger.write(
            "start",
            number=self._number,
            started=read_start_time(os.getpid()),
            parent=os.getppid(),
            parent_started=read_start_time(os.getppid()),
            vendor=self.stream.vendor,
            resumed=self.stream.resumed is not None,
            arguments=self.stream.arguments,
            cwd=str(Path.cwd()),
            variables=sorted(os.environ),
            deepwork=ours,
            prompt_bytes=len(self.prompt.encode()),
        )

    def _hold_task(self) -> None:
        """Hold the task as long as this process lives; note whoever holds it already."""
        lock = os.open(self._home / f"{self.name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.ledger.write("overlap", other=os.read(lock, 100).decode())
        else:
            os.ftruncate(lock, 0)
            os.write(lock, str(os.getpid()).encode())

    def _load_session(self) -> int:
        """Return how many steps the session has done; a session that does not exist cannot be resumed."""
        path = self._home / f"{self.stream.session}.session"
        if self.stream.resumed is None:
            return 0
        if not path.exists():
            print(f"No conversation found with session ID: {self.stream.session}", file=sys.stderr)
            self.leave(1)
        kept = json.loads(path.read_text())
        self.stream.total = Used(**kept["total"])
        if self.stream.reports_session:
            self.stream.owed = Used(**kept["owed"])
        return int(kept["done"]) if kept["place"] == self._place else 0

    def save_session(self) -> None:
        """Keep what a resume needs: the steps that are done, and what the session has used."""
        if self._is_forgotten:
            return
        path = self._home / f"{self.stream.session}.session"
        kept = {"place": self._place, "done": self._next, "total": vars(self.stream.total)}
        kept["owed"] = vars(self.stream.owed)
        new = path.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps(kept))
        new.replace(path)

    def _find_name(self, script: dict[str, Any]) -> str:
        """Return the task that the prompt is about, for a prompt without a task's id."""
        found = [(self.prompt.find(name), name) for name in script["tasks"] if name in self.prompt]
        return min(found)[1] if found else "default"


class Steps:
    """What a script can say; a method is a step, its parameters are the keys."""

    def __init__(self, agent: Agent) -> None:
        self._agent, self._stream = agent, agent.stream
        self._tools = 0
        self._server: subprocess.Popen[bytes] | None = None

    # work

    def append(self, file: str, line: str) -> None:
        """Add a line to a file in the tree unless it is there: an agent looks before it writes."""
        path = Path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text() if path.exists() else ""
        if line not in before.splitlines():
            with path.open("ab", buffering=0) as added:  # at once: a kill must not leave an empty file
                added.write(f"{line}\n".encode())

    def write(self, file: str, text: str) -> None:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(text)

    def commit(self, message: str) -> None:
        """Commit what differs, if anything does; without hooks, so that those of others can be noticed."""
        git = ["git", "-c", "core.hooksPath=/dev/null"]
        subprocess.run([*git, "add", "-A"], check=True)
        if subprocess.run([*git, "diff", "--cached", "--quiet"], check=False).returncode:
            subprocess.run([*git, "commit", "-qm", message], check=True, stdout=subprocess.DEVNULL)

    def run(self, argv: list[str]) -> None:
        """Run a program in the tree; its output goes where ours does."""
        subprocess.run(argv, check=False)

    # tools of deepwork

    def call(self, tool: str, file: str, arguments: dict[str, Any] | None = None) -> None:
        """Call a tool of the MCP server that the command line names, and write its answer to a file."""
        params = {"name": tool, "arguments": arguments or {}}
        answer = self._ask({"id": 1, "method": "tools/call", "params": params})
        new = Path(f"{file}.new")
        new.write_text(json.dumps(answer))
        new.replace(file)

    def _ask(self, message: dict[str, Any]) -> Any:
        if self._server is None:
            command, env = self._find_server()
            self._server = subprocess.Popen(
                command, env={**os.environ, **env}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            client = {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "fake", "version": "1"},
            }
            self._ask({"id": 0, "method": "initialize", "params": client})
            self._send({"method": "notifications/initialized"})
        self._send(message)
        assert self._server.stdout
        return json.loads(self._server.stdout.readline())

    def _find_server(self) -> tuple[list[str], dict[str, str]]:
        """Return the server that the command line names, as Claude Code or Codex would start it."""
        if file := self._stream.get_option("--mcp-config"):
            server = json.loads(Path(file).read_text())["mcpServers"]["deepwork"]
            return [server["command"], *server["args"]], server.get("env", {})
        given = dict(word.split("=", 1) for word in self._stream.arguments if word.startswith("mcp_servers."))
        command, words = (json.loads(given[f"mcp_servers.deepwork.{key}"]) for key in ("command", "args"))
        return [command, *words], {}

    def hook(self, event: str, file: str, **given: Any) -> None:
        """Call the hook that the command line names, as Claude Code does after a tool; write down its answer."""
        settings = json.loads(Path(self._stream.get_option("--settings") or "").read_text())
        [group] = settings["hooks"][event]
        content = json.dumps({"session_id": self._stream.session, "cwd": str(Path.cwd()), **given})
        command = group["hooks"][0]["command"]
        done = subprocess.run(
            command, shell=True, input=content, text=True, stdout=subprocess.PIPE, check=False
        )
        Path(file).write_text(done.stdout)

    def dump(self, file: str) -> None:
        """Write down what the processes of this agent were given, as the system shows it."""
        pids = [os.getpid(), *([self._server.pid] if self._server else [])]
        shown = [Path(f"/proc/{pid}/{name}").read_bytes() for pid in pids for name in ("environ", "cmdline")]
        Path(file).write_bytes(b"\n".join(shown))

    def _send(self, message: dict[str, Any]) -> None:
        assert self._server
        assert self._server.stdin
        self._server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._server.stdin.flush()

    # time

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def wait_for(self, file: str, seconds: float = 600) -> None:
        """Wait until a file exists, outside the tree; give up when nobody can still be watching."""
        end = time.monotonic() + seconds
        while not Path(file).exists() and time.monotonic() < end:
            time.sleep(0.02)

    def touch(self, file: str) -> None:
        """Tell a test that this step was reached."""
        Path(file).touch()

    def spin(self, seconds: float) -> None:
        """Use the processor and say nothing."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            sum(range(1000))

    # the stream

    def say(self, text: str) -> None:
        self._agent.emit(self._stream.say(text))

    def tool(self, name: str = "Bash", detail: str = "make", seconds: float = 0) -> None:
        """Use a tool for that long."""
        self.open_tool(name, detail)
        time.sleep(seconds)
        self._agent.emit(self._stream.end_tool(f"tool_{self._tools}", name, detail))

    def open_tool(self, name: str = "Bash", detail: str = "make") -> None:
        """Use a tool that does not answer."""
        self._tools += 1
        self._agent.emit(self._stream.start_tool(f"tool_{self._tools}", name, detail))

    def usage(self, input: int = 0, cached: int = 0, output: int = 0, usd_micros: int = 0) -> None:
        """Use the model; what its vendor reports only at the end is reported there."""
        used = Used(input, cached, output, usd_micros)
        self._stream.add(used)
        self._agent.save_session()
        if lines := self._stream.report_answer(used):
            self._agent.report(used.pick(self._stream.reports), lines)

    def noise(self, text: str = "npm warn something") -> None:
        self._agent.emit([text])

    def raw(self, line: dict[str, Any]) -> None:
        """Write an event that this program does not know."""
        self._agent.emit([line])

    def long_line(self, bytes: int = 9_000_000) -> None:
        """Write an event with one very long text."""
        self.say("x" * bytes)

    def half_line(self) -> None:
        """Write the beginning of a line; whatever comes next is glued to it."""
        [line] = map(encode_line, self._stream.say("half of this is missing")[:1])
        write_all(1, line[: len(line) // 2])

    def complain(self, text: str) -> None:
        """Write to stderr."""
        print(text, file=sys.stderr, flush=True)

    # processes

    def fork(self, seconds: float = 600) -> None:
        """Leave a child that holds stdout, in a session of its own."""
        subprocess.Popen(
            [sys.executable, "-S", "-c", f"import time; time.sleep({seconds})"], start_new_session=True
        )

    def ignore_sigterm(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def die(self, number: int = signal.SIGKILL) -> None:
        os.kill(os.getpid(), number)

    # endings

    def forget(self) -> None:
        """Lose the transcript of this session."""
        self._agent.forget()

    def limit(self, resets_in: float | None = None, once: bool = True) -> None:
        """Meet a usage limit. The session can go on after it, unless `once` is false."""
        self._agent.end(self._stream.limit(None if resets_in is None else time.time() + resets_in))
        if once:
            self._agent.pass_step()
        self._agent.leave(1)

    def transient(self, once: bool = True) -> None:
        """Meet an overload."""
        self._agent.end(self._stream.fail_for_a_moment())
        if once:
            self._agent.pass_step()
        self._agent.leave(1)

    def exit(self, code: int = 0, text: str = "Did the task.", is_error: bool = False) -> NoReturn:
        self._agent.end(self._stream.end(text, is_error=is_error), is_error=is_error)
        self._write_last_message(text)
        self._agent.leave(code)

    def leave_silently(self, code: int = 0) -> None:
        """Exit without the vendor's result."""
        self._agent.leave(code)

    def _write_last_message(self, text: str) -> None:
        file = self._stream.get_option("-o") or self._stream.get_option("--output-last-message")
        if self._stream.vendor == "codex" and file:
            Path(file).write_text(text)


def write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


def read_start_time(pid: int) -> str:
    """Return when a process started, in ticks since boot: with the pid, its identity."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _read_prompt() -> str:
    """Read the prompt from stdin, or from the file that the arguments name."""
    if not sys.stdin.isatty() and (text := sys.stdin.read()):
        return text
    files = [word for word in sys.argv[1:] if word.endswith((".md", ".txt")) and Path(word).is_file()]
    return Path(files[0]).read_text() if files else ""


def _count_starts(path: Path) -> int:
    """Count this start of the task: one byte per start."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX)
    os.write(file, b".")
    number = os.fstat(file).st_size
    os.close(file)
    return number


if __name__ == "__main__":
    main()
