"""Links the commits of an attempt with it, when it ends."""

from __future__ import annotations

import logging
from pathlib import Path

from deepwork.delivery.provenance.recorder import NO_LINKS, LinkRecorder, Maker, PreparedLinks
from deepwork.delivery.runner.models import Attempt
from deepwork.kernel.errors import DeepworkError

log = logging.getLogger("deepwork")


def prepare_links(recorder: LinkRecorder, attempt: Attempt, base: str | None) -> PreparedLinks:
    """Describe what an attempt made; a failure is logged, because the work itself is done and committed."""
    tree = Path(attempt.tree or "")
    if not attempt.branch or not tree.is_dir():
        return NO_LINKS
    maker = Maker(attempt.task_id, attempt.workflow_id, attempt.id, attempt.agent_id)
    try:
        return recorder.prepare_attempt(tree, maker, base)
    except (DeepworkError, OSError) as error:
        log.warning("Cannot link the commits of attempt %s with it: %s", attempt.id, error)
        return NO_LINKS
