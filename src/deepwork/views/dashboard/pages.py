"""Serves the built web page from memory; a request path never reaches the file system."""

from __future__ import annotations

import mimetypes
import re
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from deepwork.kernel.errors import DefinitionError
from deepwork.kernel.records import dataclass
from deepwork.views.dashboard.http_errors import HttpError, error_to_response, require_method

BUILD_FOLDER = Path(__file__).with_name("static")
INDEX = "index.html"
CACHE_FOREVER = "public, max-age=31536000, immutable"

_ASSET_REFERENCE_PATTERN = re.compile(r"""(?:src|href)=["']/(assets/[^"'?#]+)["']""")
_CONTENT_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".woff2": "font/woff2",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".txt": "text/plain",
    ".webmanifest": "application/manifest+json",
    ".map": "application/json",
}


@dataclass(frozen=True)
class _StaticFile:
    body: bytes
    media_type: str
    tag: str


class StaticPages:
    """The built files by path."""

    def __init__(self, folder: Path = BUILD_FOLDER) -> None:
        """Load all files; raise DefinitionError if the build is missing or incomplete.

        An error at startup is better than a blank page later.
        """
        self._files = {
            file.relative_to(folder).as_posix(): _load_file(file)
            for file in sorted(folder.rglob("*"))
            if file.is_file()
        }
        _require_complete_build(self._files, folder)

    def build_routes(self) -> list[BaseRoute]:
        return [
            Route("/{path:path}", self._handle, methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
        ]

    async def _handle(self, request: Request) -> Response:
        try:
            return self._serve_page(request)
        except HttpError as error:
            return error_to_response(error, error.to_dict())

    def _serve_page(self, request: Request) -> Response:
        path = request.path_params["path"]
        require_method(request, "GET", "HEAD")
        if (file := self._files.get(path)) is not None and path != INDEX:
            return _to_response(request, file, CACHE_FOREVER if path.startswith("assets/") else "no-cache")
        if path.startswith("assets/") or not _wants_page(request):
            raise HttpError(404, f"Page {'/' + path[:200]!r} not found.", "Start at /.")
        return self.serve_index(request)

    def serve_index(self, request: Request) -> Response:
        """Serve index.html: the page chooses its view by the path in the browser."""
        return _to_response(request, self._files[INDEX], "no-store")


def _wants_page(request: Request) -> bool:
    accepted = request.headers.get("accept", "*/*")
    return "text/html" in accepted or accepted.strip() == "*/*"


def _to_response(request: Request, file: _StaticFile, cache_control: str) -> Response:
    headers = {"Cache-Control": cache_control}
    if cache_control != "no-store":
        headers["ETag"] = file.tag
        if file.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
    return Response(file.body, media_type=file.media_type, headers=headers)


def _load_file(file: Path) -> _StaticFile:
    body = file.read_bytes()
    guessed = (
        _CONTENT_TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    )
    return _StaticFile(body, guessed, f'"{sha256(body).hexdigest()[:16]}"')


def _require_complete_build(files: dict[str, _StaticFile], folder: Path) -> None:
    index = files.get(INDEX)
    if index is None:
        raise _create_missing_file_error(f"{folder.name}/{INDEX}")
    for name in _ASSET_REFERENCE_PATTERN.findall(index.body.decode(errors="replace")):
        if name not in files:
            raise _create_missing_file_error(f"{folder.name}/{name}, which {INDEX} names,")


def _create_missing_file_error(what: str) -> DefinitionError:
    return DefinitionError(
        f"The dashboard's page is incomplete: {what} does not exist.",
        suggestion="Reinstall deepwork; in a checkout, run `npm ci && npm run build` in web/.",
    )
