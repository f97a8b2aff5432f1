"""Asks the person at this terminal, or says what to do where nobody can be asked."""

from __future__ import annotations

import sys
from typing import NamedTuple

import click

from deepwork.edge.cli.framework.output import to_printable


class Person(NamedTuple):
    """Who may be asked."""

    yes: bool = False
    """Whether every question is answered already."""
    as_json: bool = False

    @property
    def can_answer(self) -> bool:
        """Whether somebody is there to answer."""
        return not self.as_json and sys.stdin is not None and sys.stdin.isatty()

    def confirm(self, question: str, *, default: bool = True) -> bool:
        """Ask for yes or no."""
        return bool(click.confirm(question, default=default, err=True))

    def choose(self, question: str, answers: str) -> str:
        """Ask for one of these letters; the first is the default."""
        while True:
            given = (
                str(click.prompt(question, default=answers[0], show_default=False, err=True)).strip().lower()
            )
            if given[:1] in answers and given:
                return given[0]

    def say(self, *lines: str) -> None:
        """Say something that is no answer: standard output is for programs if they read it."""
        stream = sys.stderr if self.as_json else sys.stdout
        print("\n".join(map(to_printable, lines)), file=stream, flush=True)
