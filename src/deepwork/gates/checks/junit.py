"""Reads the JUnit report of a run, which the code under test has written: it may contain anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.parsers import expat

from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.files.paths import confine, read_confined
from deepwork.kernel.records import dataclass

MAX_REPORT_BYTES = 32 * 2**20
_MAX_DEPTH = 100


class UnreadableReport(Exception):
    """The report is not well-formed XML, or uses what no report needs."""


@dataclass(frozen=True)
class TestCounts:
    """How many tests ran, and how many were only listed."""

    __test__ = False  # pytest would collect it

    run: int
    skipped: int


def remove_report(folder: Path, report: str | None) -> str | None:
    """Remove the report of an earlier run, or a prepared one; return why that is not possible."""
    if report is None:
        return None
    parent, _, name = report.rpartition("/")
    try:
        place = confine(folder, parent or ".", must_exist=False)
        (place / name).unlink(missing_ok=True)
    except (DeepworkError, OSError) as error:
        return f"The report {report} cannot be removed before the run: {error}"
    return None


def read_report(folder: Path, report: str) -> tuple[TestCounts | None, str | None]:
    """Count the tests in the report of a run; or return why that is not possible."""
    try:
        return count_tests(read_confined(folder, report, max_bytes=MAX_REPORT_BYTES)), None
    except DeepworkError as error:
        return None, f"It wrote no report that can be read: {error}"
    except UnreadableReport as error:
        return None, f"Its report {report} cannot be used: {error}."


def count_tests(report: bytes) -> TestCounts:
    """Count the test cases; those that are skipped, or expected to fail, did not run."""
    counter = _Counter()
    parser = expat.ParserCreate()
    parser.StartElementHandler = counter.start
    parser.EndElementHandler = counter.end
    parser.StartDoctypeDeclHandler = _refuse_doctype
    try:
        parser.Parse(report, True)
    except expat.ExpatError as error:
        raise UnreadableReport(f"it is not XML: {error}") from None
    except (ValueError, LookupError) as error:  # an encoding that Python does not know
        raise UnreadableReport(f"it cannot be decoded: {error}") from None
    return TestCounts(counter.cases - counter.skipped, counter.skipped)


class _Counter:
    def __init__(self) -> None:
        self.cases = self.skipped = self._depth = 0
        self._case_depth: int | None = None
        self._is_skipped = False

    def start(self, name: str, _attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise UnreadableReport(f"it is nested deeper than {_MAX_DEPTH} levels")
        if name == "testcase" and self._case_depth is None:
            self._case_depth, self._is_skipped = self._depth, False
            self.cases += 1
        elif name == "skipped" and self._case_depth is not None:
            self._is_skipped = True

    def end(self, _name: str) -> None:
        if self._depth == self._case_depth:
            self._case_depth = None
            self.skipped += self._is_skipped
        self._depth -= 1


def _refuse_doctype(*_: Any) -> None:
    raise UnreadableReport("it has a document type, which could define entities")
