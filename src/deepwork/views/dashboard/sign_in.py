"""The page that a browser without a valid token gets."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from typing import Any

SIGN_IN_STYLE = """
:root { color-scheme: light dark; --text: light-dark(#1c2129, #e5e8ee); --soft: light-dark(#565f6d, #a3adbb);
  --line: light-dark(#868f9d, #6d7686); --accent: light-dark(#2853c4, #8db0ff);
  --bad: light-dark(#b3261e, #ff9187);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; color: var(--text);
  background: light-dark(#f6f7f9, #14161a); }
main { box-sizing: border-box; width: min(460px, 100vw); padding: 28px 24px; }
svg { width: 40px; height: 40px; }
h1 { margin: 12px 0 4px; font-size: 24px; letter-spacing: -0.01em; }
p { margin: 8px 0; overflow-wrap: anywhere; }
form { margin: 20px 0; display: grid; gap: 8px; }
label { font-weight: 600; }
input, button { box-sizing: border-box; font: inherit; min-height: 44px; padding: 8px 12px;
  border-radius: 8px; border: 1px solid var(--line);
  background: light-dark(#ffffff, #1b1e24); color: var(--text); }
button { background: var(--accent); border-color: var(--accent); color: light-dark(#ffffff, #10182b);
  font-weight: 600; cursor: pointer; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
code { font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 0.92em; }
.soft { color: var(--soft); }
.bad { color: var(--bad); }
"""
SIGN_IN_POLICY = (
    f"default-src 'none'; style-src 'sha256-{b64encode(sha256(SIGN_IN_STYLE.encode()).digest()).decode()}'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The page has its style in it, since a browser that is not signed in gets no file of this server."""
_LOGO = (
    '<svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="8" fill="#2f5bd3"/>'
    '<path d="M8 11h10M8 16h16M8 21h7" stroke="#fff" stroke-width="3" stroke-linecap="round" fill="none"/>'
    "</svg>"
)


def render_sign_in_page(refusal: Mapping[str, Any], *, was_refused: bool) -> bytes:
    """Render the page that a browser without a valid token gets. `was_refused`: it came with another one."""
    said = f"{escape(str(refusal['message']))} {escape(str(refusal['suggestion']))}"
    said = re.sub("`([^`]*)`", r"<code>\1</code>", said)
    manner = 'class="bad" role="alert"' if was_refused else 'class="soft"'
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>deepwork: sign in</title>'
        f"<style>{SIGN_IN_STYLE}</style></head>\n<body><main>\n{_LOGO}\n<h1>Sign in to deepwork</h1>\n"
        f"<p {manner}>{said}</p>\n"
        '<form method="get" action="/"><label for="token">Token</label>'
        '<input id="token" name="token" type="password" required autofocus autocomplete="current-password" '
        'spellcheck="false"><button type="submit">Sign in</button></form>\n'
        "<p>Or open the link that is printed when the server starts: it ends with <code>/?token=</code> and "
        "the token. To see it again, run <code>deepwork dashboard --open</code>. Unless you configured a "
        "token, it is also in the project's file <code>.deepwork/token</code>.</p>\n"
        '<p class="soft">This browser then stays signed in for a week.</p>\n</main></body></html>\n'
    ).encode()
