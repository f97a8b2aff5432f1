"""Tokens kept out of the log, whoever writes it: some libraries show whole requests."""

from __future__ import annotations

import logging
import re

_TOKEN = re.compile(r"dw_[0-9a-z]{12}_[A-Za-z0-9_-]{43}")
HIDDEN = "dw_…"


class HideTokens(logging.Filter):
    """Shortens named tokens, and the owner's, in every line."""

    def __init__(self, owners: str) -> None:
        super().__init__()
        self._owners = {owners, repr(owners)[1:-1]}  # as it is, and as a traceback shows it

    def filter(self, record: logging.LogRecord) -> bool:
        line = record.getMessage()
        hidden = _TOKEN.sub(HIDDEN, line)
        for form in self._owners:
            hidden = hidden.replace(form, HIDDEN)
        if hidden != line:
            record.msg, record.args = hidden, ()
        return True


def hide_tokens(owners: str) -> None:
    """From now on, for every line that this process logs."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(HideTokens(owners))
