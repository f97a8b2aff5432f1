"""Redacts tokens in log lines, because some libraries log whole requests."""

from __future__ import annotations

import logging
import re

_TOKEN_PATTERN = re.compile(r"dw_[0-9a-z]{12}_[A-Za-z0-9_-]{43}")
HIDDEN = "dw_…"


class TokenRedactionFilter(logging.Filter):
    """Replaces named tokens and the owner's token in every line."""

    def __init__(self, owner_token: str) -> None:
        super().__init__()
        self._owner_forms = {owner_token, repr(owner_token)[1:-1]}  # plain, and escaped as in a traceback

    def filter(self, record: logging.LogRecord) -> bool:
        line = record.getMessage()
        hidden = _TOKEN_PATTERN.sub(HIDDEN, line)
        for form in self._owner_forms:
            hidden = hidden.replace(form, HIDDEN)
        if hidden != line:
            record.msg, record.args = hidden, ()
        return True


def redact_tokens_in_logs(owner_token: str) -> None:
    """Add the filter to all log handlers of this process."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(TokenRedactionFilter(owner_token))
