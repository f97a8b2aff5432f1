"""Merges the branches of a batch one after the other, each with a merge commit of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from deepwork.delivery.landing.items import LandingItem
from deepwork.delivery.landing.models import Landing
from deepwork.delivery.landing.rules import build_message
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.commit_records import get_tree
from deepwork.kernel.git.merge_commits import CommitFacts, TreeMerge, create_commit, find_author, merge_trees
from deepwork.kernel.git.refs import is_ancestor


@dataclass(frozen=True)
class MergedItem:
    """A landing with its merge commit, which no branch has yet."""

    item: LandingItem
    facts: CommitFacts

    def with_landing(self, landing: Landing) -> MergedItem:
        """Return the same merge with the landing as it is stored now."""
        return MergedItem(replace(self.item, landing=landing), self.facts)


@dataclass
class BatchMerge:
    """What became of each landing of a batch."""

    merged: list[MergedItem] = field(default_factory=list)
    contained: list[LandingItem] = field(default_factory=list)
    """The branch has their changes already."""
    conflicting: list[tuple[LandingItem, TreeMerge]] = field(default_factory=list)
    """They conflict with what has landed. Those that conflict with another of the batch are in no list:
    they are tried again when it is known whether that one lands."""


def merge_batch(git: Git, start: str, items: Sequence[LandingItem]) -> BatchMerge:
    """Merge these branches onto a commit, in this order."""
    found = BatchMerge()
    current, author = start, find_author(git)
    for item in items:
        source = item.landing.source_commit or ""
        if is_ancestor(git, source, current):
            if is_ancestor(git, source, start):
                found.contained.append(item)
            continue
        merge = merge_trees(git, current, source)
        if merge.tree is None:
            alone = merge if current == start else merge_trees(git, start, source)
            if alone.tree is None:
                found.conflicting.append((item, alone))
        elif merge.tree == get_tree(git, current):
            if current == start:
                found.contained.append(item)
        else:
            message = build_message(item.landing, item.task.outcome)
            facts = create_commit(git, merge.tree, [current, source], message, author)
            found.merged.append(MergedItem(item, facts))
            current = facts.commit
    return found
