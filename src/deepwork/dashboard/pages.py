"""The page in the browser: files built beforehand and kept in memory, none looked up by what is asked."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from deepwork.dashboard.failures import WrongForm, failure, require_method
from deepwork.errors import DefinitionError

BUILT = Path(__file__).with_name("static")
INDEX = "index.html"
FOREVER = "public, max-age=31536000, immutable"

_REFERENCE = re.compile(r"""(?:src|href)=["']/(assets/[^"'?#]+)["']""")
_TYPES = {
    ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml",
    ".json": "application/json", ".woff2": "font/woff2", ".png": "image/png", ".ico": "image/x-icon",
    ".txt": "text/plain", ".webmanifest": "application/manifest+json", ".map": "application/json",
}  # fmt: skip


@dataclass(frozen=True)
class _File:
    body: bytes
    media_type: str
    tag: str


class Pages:
    """Everything that was built, by its address."""

    def __init__(self, folder: Path = BUILT) -> None:
        """Reads all files; a build that is missing or not whole is an error now, not a blank page later."""
        self._files = {
            file.relative_to(folder).as_posix(): _read(file)
            for file in sorted(folder.rglob("*"))
            if file.is_file()
        }
        _require_whole(self._files, folder)

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/{path:path}", self._answer, methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
        ]

    async def _answer(self, request: Request) -> Response:
        try:
            return self._page(request)
        except WrongForm as error:
            return failure(error, error.as_dict())

    def _page(self, request: Request) -> Response:
        path = request.path_params["path"]
        require_method(request, "GET", "HEAD")
        if (file := self._files.get(path)) is not None and path != INDEX:
            return _sent(request, file, FOREVER if path.startswith("assets/") else "no-cache")
        if path.startswith("assets/") or not _wants_page(request):
            raise WrongForm(404, f"There is no page {'/' + path[:200]!r}.", "Begin at /.")
        return self.index(request)

    def index(self, request: Request) -> Response:
        """Whatever a person may open is a view of the one page, which reads its own address."""
        return _sent(request, self._files[INDEX], "no-store")


def sign_in_page(refusal: Mapping[str, Any]) -> bytes:
    """What a browser sees that has not shown a token."""
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>deepwork: sign in</title>\n'
        f"<h1>Sign in</h1>\n<p>{escape(str(refusal['message']))} {escape(str(refusal['suggestion']))}</p>\n"
        "<p>The link is printed when the server starts, and ends with <code>/?token=</code> and the token. "
        "Opened once, this browser is known from then on. "
        "The token is also in the file <code>.deepwork/token</code> of the project, unless one was set.</p>\n"
    ).encode()


def _wants_page(request: Request) -> bool:
    accepted = request.headers.get("accept", "*/*")
    return "text/html" in accepted or accepted.strip() == "*/*"


def _sent(request: Request, file: _File, cached: str) -> Response:
    headers = {"Cache-Control": cached}
    if cached != "no-store":
        headers["ETag"] = file.tag
        if file.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
    return Response(file.body, media_type=file.media_type, headers=headers)


def _read(file: Path) -> _File:
    body = file.read_bytes()
    guessed = _TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return _File(body, guessed, f'"{sha256(body).hexdigest()[:16]}"')


def _require_whole(files: dict[str, _File], folder: Path) -> None:
    index = files.get(INDEX)
    if index is None:
        raise _not_built(f"{folder.name}/{INDEX}")
    for name in _REFERENCE.findall(index.body.decode(errors="replace")):
        if name not in files:
            raise _not_built(f"{folder.name}/{name}, which {INDEX} names,")


def _not_built(what: str) -> DefinitionError:
    return DefinitionError(
        f"The dashboard's page is missing: {what} is not there.",
        suggestion="Install deepwork again; in a checkout, run `npm ci && npm run build` in web/.",
    )
