"""Shows a run: live in a terminal, as one line for each event elsewhere, or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Protocol

from deepwork.edge.cli.framework import terminal
from deepwork.edge.cli.framework.live_lines import LiveLines, measure_lines
from deepwork.edge.cli.framework.output import to_printable
from deepwork.edge.cli.run_lines import EventLines, build_event_object, build_state_objects
from deepwork.edge.cli.run_screen import render_screen
from deepwork.edge.cli.run_state import RunState, get_step_name
from deepwork.edge.cli.run_summary import render_summary
from deepwork.kernel.events.log import Event
from deepwork.kernel.foreign_text import dump_json


class RunOutput(Protocol):
    """Where a run is shown."""

    def begin(self, state: RunState) -> None:
        """Show how the run is before anything new happens."""

    def show(self, state: RunState, events: Sequence[Event]) -> None:
        """Show what has happened to the run, and how it is now."""

    def notice(self, text: str) -> None:
        """Say something to the person."""

    def end(self, state: RunState) -> None:
        """Show how the run has ended, or was left."""


def choose_output(*, as_json: bool) -> RunOutput:
    """Choose how standard output shows a run."""
    if as_json:
        return JsonOutput()
    return LiveOutput() if terminal.supports_rich_output() else LineOutput()


class JsonOutput:
    """One JSON object per line."""

    def begin(self, state: RunState) -> None:
        for each in build_state_objects(state):
            print(dump_json(each))
        sys.stdout.flush()

    def show(self, state: RunState, events: Sequence[Event]) -> None:  # noqa: ARG002
        for event in events:
            print(dump_json(build_event_object(event)))
        sys.stdout.flush()

    def notice(self, text: str) -> None:
        print(to_printable(text), file=sys.stderr, flush=True)

    def end(self, state: RunState) -> None:
        print(dump_json(build_state_objects(state)[0]), flush=True)


class LineOutput:
    """One line for each event, for pipes and log files."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._lines = EventLines(lambda task_id: self._names.get(task_id) or get_step_name(task_id))

    def begin(self, state: RunState) -> None:
        self._lines.remember_run(state.run)
        print(describe_beginning(state), flush=True)

    def show(self, state: RunState, events: Sequence[Event]) -> None:
        for line in self.render_events(state, events):
            print(line)
        sys.stdout.flush()

    def render_events(self, state: RunState, events: Sequence[Event]) -> list[str]:
        """Render the events that say something new."""
        self._names.update(state.task_names)
        return [line for event in events if (line := self._lines.render(event))]

    def notice(self, text: str) -> None:
        print(to_printable(text), file=sys.stderr, flush=True)

    def end(self, state: RunState) -> None:
        print("\n".join(render_summary(state)), flush=True)


class LiveOutput(LineOutput):
    """A screen that is drawn in place, below a line for each event."""

    def __init__(self) -> None:
        super().__init__()
        self._screen = LiveLines(sys.stdout)
        self._notice = ""

    def begin(self, state: RunState) -> None:
        self._lines.remember_run(state.run)
        self._draw(state)

    def show(self, state: RunState, events: Sequence[Event]) -> None:
        self._draw(state, self.render_events(state, events))

    def notice(self, text: str) -> None:
        """Draw a notice instead of the hint, at the next drawing."""
        self._notice = to_printable(text)

    def end(self, state: RunState) -> None:
        columns, _ = terminal.get_size()
        self._screen.draw([], [], columns, above=[*render_summary(state)])

    def _draw(self, state: RunState, above: Sequence[str] = ()) -> None:
        columns, rows = terminal.get_size()
        lines = render_screen(state, columns, rows, hint=self._notice)
        painted = [terminal.paint(line.text, line.style) for line in lines]
        widths = measure_lines([line.text for line in lines])
        self._screen.draw(painted, widths, columns, above=above)


def describe_beginning(state: RunState) -> str:
    """Say which run is followed."""
    return f"{state.run.id}  {to_printable(state.name)}: {state.run.status.value}"
