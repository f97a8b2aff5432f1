"""The name of a class says which one it is."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "deepwork"


def test_no_class_name_exists_twice() -> None:
    modules = defaultdict(list)
    for file in SOURCE.rglob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                modules[node.name].append(str(file.relative_to(SOURCE)))

    assert {name: found for name, found in modules.items() if len(found) > 1} == {}
