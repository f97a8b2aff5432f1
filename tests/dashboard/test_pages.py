"""The built page is served; a missing build is an error at startup."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from application import make_app
from dashboard.make import create_client
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import DefinitionError
from deepwork.views.dashboard.pages import StaticPages

INDEX = (
    '<!doctype html><script type="module" src="/assets/app-1a2b.js"></script><link href="/assets/app-3c.css">'
)


@pytest.fixture
def built(tmp_path: Path) -> Path:
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(INDEX)
    (folder / "assets" / "app-1a2b.js").write_text("export {}")
    (folder / "assets" / "app-3c.css").write_text("body {}")
    (folder / "icon.svg").write_text("<svg/>")
    (tmp_path / "secret.txt").write_text("secret")
    return folder


@pytest.fixture
def site(built: Path) -> TestClient:
    return TestClient(Starlette(routes=StaticPages(built).build_routes()), base_url="http://127.0.0.1")


@pytest.mark.parametrize(
    "path", ["/", "/index.html", "/runs", "/runs/tw_1?tab=graph&task=tt_1", "/tasks/abc%2Fstep", "/decisions"]
)
def test_every_path_serves_the_one_page(site: TestClient, path: str):
    answer = site.get(path, headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})

    assert (answer.status_code, answer.text) == (200, INDEX)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("path", "kind", "cached"),
    [
        ("/assets/app-1a2b.js", "text/javascript; charset=utf-8", "public, max-age=31536000, immutable"),
        ("/assets/app-3c.css", "text/css; charset=utf-8", "public, max-age=31536000, immutable"),
        ("/icon.svg", "image/svg+xml", "no-cache"),
    ],
)
def test_files_have_a_type_and_a_cache_time(site: TestClient, path: str, kind: str, cached: str):
    answer = site.get(path)

    assert (answer.headers["content-type"], answer.headers["cache-control"]) == (kind, cached)
    again = site.get(path, headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    head = site.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(answer.content))


@pytest.mark.parametrize(
    "path",
    [
        "/assets/gone.js", "/assets/../../secret.txt", "/..%2fsecret.txt", "/%2e%2e/secret.txt",
        "/assets/..%2f..%2fsecret.txt", "/assets/%2e%2e%2f%2e%2e%2fsecret.txt", "//etc/passwd", "/favicon.ico",
        "/assets/app-1a2b.js%00", "/assets/", "/assets/..\\..\\secret.txt",
    ],
)  # fmt: skip
def test_files_outside_the_build_are_not_found(site: TestClient, path: str):
    answer = site.get(path, headers={"accept": "application/json"})

    assert answer.status_code == 404
    assert set(answer.json()) == {"code", "message", "recoverable", "suggestion"}
    assert "secret" not in answer.json()["message"].replace("secret.txt", "")


def test_a_missing_asset_does_not_serve_the_page(site: TestClient):
    assert site.get("/assets/old-9z.js", headers={"accept": "text/html"}).status_code == 404


def test_a_page_accepts_only_get_and_head(site: TestClient):
    answer = site.post("/runs", headers={"accept": "text/html"})

    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


def test_a_missing_build_is_an_error_at_startup(tmp_path: Path):
    with pytest.raises(DefinitionError, match=r"nowhere/index\.html does not exist") as refused:
        StaticPages(tmp_path / "nowhere")

    assert "npm run build" in refused.value.suggestion


def test_an_incomplete_build_is_an_error_at_startup(built: Path):
    (built / "assets" / "app-3c.css").unlink()

    with pytest.raises(DefinitionError, match=r"assets/app-3c\.css, which index\.html names"):
        StaticPages(built)


def test_the_shipped_build_is_complete():
    StaticPages()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Application]:
    made = make_app(tmp_path, str(tmp_path / "deepwork.db"))
    yield made
    made.close()


def test_a_browser_without_a_token_gets_the_sign_in_page(alone: Application):
    stranger = create_client(alone)
    del stranger.headers["authorization"]

    answer = stranger.get("/runs", headers={"accept": "text/html"})

    assert answer.status_code == 401
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert '<input id="token" name="token" type="password"' in answer.text
    [style] = re.findall("<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = answer.headers["content-security-policy"]
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'; form-action 'self'")
    error = stranger.get("/api/v1/home").json()
    assert error["code"] == "UNAUTHORIZED"
    assert all(f"`deepwork {each}`" in error["suggestion"] for each in ("dashboard", "serve"))


def test_a_wrong_token_is_refused_without_echoing_it(alone: Application):
    stranger = create_client(alone)
    del stranger.headers["authorization"]

    answer = stranger.get("/?token=<b>wrong</b>", headers={"accept": "text/html"})

    assert answer.status_code == 401
    assert "not valid here" in answer.text
    assert "<b>" not in answer.text


def test_health_is_plain_text_for_programs_and_a_page_for_people(alone: Application):
    page = create_client(alone)

    assert page.get("/health").json() == {"status": "ok"}
    assert (
        page.get("/health", headers={"accept": "text/html"}).headers["content-type"].startswith("text/html")
    )


@pytest.mark.parametrize("path", ["/mcp", "/sse", "/messages/"])
def test_the_dashboard_alone_does_not_serve_mcp(alone: Application, path: str):
    page = create_client(alone)

    assert page.post(path, json={"jsonrpc": "2.0", "id": 1, "method": "ping"}).status_code in (404, 405)
