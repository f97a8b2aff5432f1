"""How the review tools answer."""

from __future__ import annotations

from typing import Self

from deepwork.files.stamps import speakable
from deepwork.reviews.models import Flaw, Rule
from deepwork.shapes import Answer


class RuleView(Answer):
    """A rule as whoever looks for one sees it."""

    name: str
    description: str
    defining_file: str

    @classmethod
    def of(cls, rule: Rule) -> Self:
        defining_file = speakable(rule.defining_file)
        return cls(name=rule.name, description=rule.description, defining_file=defining_file)

    @classmethod
    def of_flaw(cls, flaw: Flaw) -> Self:
        """What cannot be used stands in the list too: silence would look like no rule at all."""
        return cls(
            name=f"PARSE_ERROR:{flaw.file}", description=flaw.what, defining_file=f"{flaw.file}:{flaw.line}"
        )


class ReviewPassed(Answer):
    review_id: str
    passed_at: str
