"""Remembers which files each requested review is of, and who asked for it first."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from deepwork.gates.reviews.models import Review
from deepwork.kernel.config import TMP_FOLDER
from deepwork.kernel.files.atomic import write_atomically
from deepwork.kernel.files.os_errors import to_storage_error
from deepwork.kernel.files.state import read_state_file

_MAX_AGE_SECONDS = 30 * 24 * 3600
_NAME_PATTERN = re.compile(r"rv_[0-9a-z]{12}")


@dataclass(frozen=True)
class ReviewRequest:
    """What a review is of, and who asked for it first: that agent counts as the author of the files."""

    rule_file: str
    rule_name: str
    files: tuple[str, ...]
    unchanged: tuple[str, ...]
    asked_by: str


class RequestFiles:
    """The requested reviews of a project, by review id."""

    def __init__(self, root: Path) -> None:
        self._folder = root / TMP_FOLDER / "review_requests"

    def write(self, reviews: Iterable[tuple[str, Review]], asked_by: str) -> None:
        """Remember requested reviews; one that is known keeps who asked for it."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            known = self._remove_old()
        except OSError as error:
            raise to_storage_error("write", self._folder, error) from error
        for id, review in reviews:
            if id not in known:
                rule = review.rule
                request = ReviewRequest(rule.file, rule.name, review.files, review.unchanged, asked_by)
                path = self._folder / f"{id}.json"
                write_atomically(path, json.dumps(asdict(request)).encode(), is_durable=False)

    def load(self, review_id: str) -> ReviewRequest | None:
        """Load what a review is of; None if that is unknown, or the file is damaged."""
        if not _NAME_PATTERN.fullmatch(review_id):
            return None
        try:
            data = json.loads(read_state_file(self._folder / f"{review_id}.json"))
            lists = {key: tuple(data[key]) for key in ("files", "unchanged")}
            return ReviewRequest(**data | lists)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _remove_old(self) -> set[str]:
        """Remove old requests; return the ids of the others."""
        oldest, known = time.time() - _MAX_AGE_SECONDS, set()
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if not _NAME_PATTERN.fullmatch(entry.name.removesuffix(".json")):  # not written by deepwork
                    continue
                with suppress(FileNotFoundError):  # another server was faster
                    if entry.stat(follow_symlinks=False).st_mtime < oldest:
                        Path(entry.path).unlink()
                    else:
                        known.add(entry.name.removesuffix(".json"))
        return known
