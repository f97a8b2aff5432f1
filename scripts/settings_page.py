"""Generates the table in docs/settings.md from the settings; a test checks that it is up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deepwork.kernel.config import Settings
from deepwork.kernel.config_options import OPTIONS, Option

PAGE = Path(__file__).parent.parent / "docs" / "settings.md"
HEAD = "| key in config.yml | variable | what it does | allowed | default |\n|---|---|---|---|---|\n"


def render_page() -> str:
    """Render the page with a new table; the text around it is kept."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(HEAD)
    after = rest[rest.index("\n\n") :] if "\n\n" in rest else "\n"
    return before + HEAD + "\n".join(map(_render_row, OPTIONS)) + after


def _render_row(option: Option) -> str:
    where = " Environment only." if option.is_secret else "" if option.in_file else " Not in config.yml."
    if option.needs_trust:
        where = " In config.yml it needs [trust](howto/trust-a-repository.md)."
    default = _format_value(getattr(Settings(Path()), option.name))
    allowed = option.allowed.replace("|", "\\|")
    return (
        f"| `{option.key}` | `{option.environment_variable}` | {option.help}{where} | {allowed} | {default} |"
    )


def _format_value(value: Any) -> str:
    text = (
        ", ".join(value)
        if isinstance(value, tuple)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )
    return f"`{text}`" if text else ""


if __name__ == "__main__":
    PAGE.write_text(render_page(), encoding="utf-8")
