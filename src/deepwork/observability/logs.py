"""Log lines on standard error: text for people, or one JSON object a line for programs."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TextIO

from deepwork.database.call import current_call

FORMATS = ("text", "json")
TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

RequestId = Callable[[], str | None]


def start_logging(level: str, format: str) -> None:
    """From now on everything that is logged goes to standard error, in this form."""
    if format == "text":
        logging.basicConfig(stream=sys.stderr, level=level.upper(), format=TEXT)
        return
    handler = JsonHandler(sys.stderr)
    logging.basicConfig(handlers=[handler], level=level.upper())
    logging.captureWarnings(capture=True)
    sys.stderr = StrayLines(handler)


def tell_requests(request_id: RequestId) -> None:
    """From now on lines in JSON carry the id of the request that they belong to."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, JsonHandler):
            handler.request_id = request_id


class JsonHandler(logging.StreamHandler[TextIO]):
    """Writes each record as one JSON object, with what is known of the call it belongs to."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.request_id: RequestId = lambda: None

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._call(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["exception"] = logging.Formatter().formatException(record.exc_info)
        return json.dumps(self._without_secrets(line), ensure_ascii=False)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging calls it so
        """Said on the real standard error: through its stand-in it would come back here for ever."""
        stand_in, sys.stderr = sys.stderr, self.stream
        try:
            super().handleError(record)
        finally:
            sys.stderr = stand_in

    def _call(self) -> dict[str, str]:
        call = current_call()
        known = {"tool": call.tool, "caller": call.caller} if call.tool else {}
        id = self.request_id()
        return known if id is None else {**known, "request_id": id}

    def _without_secrets(self, value: Any) -> Any:
        """What hides tokens in a message hides them in all of the line: a traceback may show one too.

        Each text by itself, before JSON writes some characters of it differently.
        """
        if isinstance(value, dict):
            return {
                self._without_secrets(str(key)): self._without_secrets(each) for key, each in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._without_secrets(each) for each in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        shown = logging.makeLogRecord({"msg": str(value)})
        self.filter(shown)
        return shown.getMessage()


class StrayLines:
    """Stands in for standard error: whatever is written there past the log becomes a line of it."""

    def __init__(self, handler: JsonHandler) -> None:
        self._handler = handler
        self._begun = ""
        self._writing = threading.Lock()

    def write(self, text: str) -> int:
        with self._writing:
            *lines, self._begun = (self._begun + text).split("\n")
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
        """Its number, its encoding and the rest are those of the real one."""
        return getattr(self._handler.stream, name)
