"""Notices in the answers of tools."""

from __future__ import annotations

from typing import Self

from deepwork.kernel.answers import Answer
from deepwork.kernel.notices.models import Notice, NoticeType
from deepwork.kernel.values import format_timestamp


class NoticeView(Answer):
    """What this agent must hear of; `at` has the format of the answer's other times."""

    id: str
    type: NoticeType
    at: int | str
    by: str
    text: str
    task_id: str | None = None
    about: str | None = None

    @classmethod
    def from_notice(cls, notice: Notice, *, is_iso: bool = False) -> Self:
        at = format_timestamp(notice.at) if is_iso else notice.at
        return cls(**vars(notice) | {"at": at, "by": notice.by_whom})
