"""Logging to standard error: as text, or as one JSON object per line."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TextIO

from deepwork.kernel.call import current_call
from deepwork.kernel.foreign_text import dump_json, escape_controls, escape_line
from deepwork.views.observability.calls import CallLog, set_call_log

FORMATS = ("text", "json")
TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

GetRequestId = Callable[[], str | None]


def start_logging(level: str, format: str) -> None:
    """Send all log records to standard error in this format."""
    if format == "text":
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(TextFormatter(TEXT))
        logging.basicConfig(handlers=[handler], level=level.upper())
        set_call_log(CallLog(sys.stderr.fileno()) if sys.stderr is not None else None)
        return
    json_handler = JsonHandler(sys.stderr)
    logging.basicConfig(handlers=[json_handler], level=level.upper())
    logging.captureWarnings(capture=True)
    sys.stderr = StderrToLog(json_handler)


def set_request_id_source(request_id: GetRequestId) -> None:
    """Set where JSON log lines take the id of the current request from."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, JsonHandler):
            handler.request_id = request_id


class TextFormatter(logging.Formatter):
    """Writes a message on one line, whatever it contains; only a traceback adds lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        record.message = escape_line(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name is logging's
        return escape_controls(super().formatException(ei))


class JsonHandler(logging.StreamHandler[TextIO]):
    """Writes each record as one JSON object, with tool, caller and request id of the current call."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.request_id: GetRequestId = lambda: None

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._describe_call(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["exception"] = logging.Formatter().formatException(record.exc_info)
        return dump_json(self._redact(line))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        """Report on the real standard error; through `StderrToLog` it would recurse."""
        replacement, sys.stderr = sys.stderr, self.stream
        try:
            super().handleError(record)
        finally:
            sys.stderr = replacement

    def _describe_call(self) -> dict[str, str]:
        call = current_call()
        known = {"tool": call.tool, "caller": call.caller} if call.tool else {}
        id = self.request_id()
        return known if id is None else {**known, "request_id": id}

    def _redact(self, value: Any) -> Any:
        """Apply the handler's filters, which hide tokens in messages, to every string of the line.

        A traceback may contain a token too. This happens before JSON escapes characters of the token.
        """
        if isinstance(value, dict):
            return {self._redact(str(key)): self._redact(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._redact(each) for each in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        record = logging.makeLogRecord({"msg": str(value)})
        self.filter(record)
        return record.getMessage()


class StderrToLog:
    """Replaces sys.stderr: text that is written to it directly becomes log records."""

    def __init__(self, handler: JsonHandler) -> None:
        self._handler = handler
        self._partial = ""
        self._writing = threading.Lock()

    def write(self, text: str) -> int:
        with self._writing:
            *lines, self._partial = (self._partial + text).split("\n")
        for line in filter(str.strip, lines):
            level = logging.ERROR if line.startswith("Error:") else logging.INFO
            record = {
                "name": "stderr",
                "levelno": level,
                "levelname": logging.getLevelName(level),
                "msg": line.rstrip(),
            }
            self._handler.handle(logging.makeLogRecord(record))
        return len(text)

    def flush(self) -> None:
        self._handler.flush()

    def __getattr__(self, name: str) -> Any:
        """Delegate fileno, encoding and the rest to the real standard error."""
        return getattr(self._handler.stream, name)
