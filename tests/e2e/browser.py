"""A running dashboard, and a browser page that visits it."""

from __future__ import annotations

import http.client
import os
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import quick
from application import skip_or_fail
from e2e.ports import HeldPort
from patience import is_true_in_time

if TYPE_CHECKING:  # without Playwright the tests are skipped instead of failing to import
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Request

PROJECT = Path(__file__).parents[2]
AXE = PROJECT / "web" / "node_modules" / "axe-core" / "axe.min.js"
FLAGS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
]


class Dashboard:
    """A dashboard server that can be restarted on the same port."""

    def __init__(
        self, project: Path, *command: str, database: str | None = None, program: Sequence[str] = ()
    ) -> None:
        """`deepwork dashboard`, or another command; on the project's own store, or another.

        `program`: what starts `deepwork`; by default a process forked from one that has imported it.
        """
        self._program = program
        self.project, self._held = project, HeldPort()
        self._command = command or ("dashboard",)
        self._database = {} if database is None else {"DEEPWORK_DATABASE_URL": database}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._held.release()

    @property
    def port(self) -> int:
        return self._held.number

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        return (self.project / ".deepwork" / "token").read_text().strip()

    def start(self) -> None:
        log = (self.project.parent / f"{self.project.name}-{self.port}.log").open("ab")
        place = ["--path", str(self.project), "--port", str(self.port)]
        command = [*(self._program or quick.build_command()), *self._command, *place]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DEEPWORK_")}
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment | self._database
        )
        log.close()
        wait_until(
            lambda: self._process is not None and (self._process.poll() is not None or self._answers()),
            "the dashboard did not start",
        )
        assert self._process.poll() is None, Path(log.name).read_text()

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(100)
            self._process = None

    def _answers(self) -> bool:
        """Return whether it accepts its token, which no other server would."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", "/api/v1/me", headers={"Authorization": f"Bearer {self.token}"})
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


class Visitor:
    """A signed-in browser page that collects errors and foreign requests."""

    def __init__(
        self, browser: Browser, dashboard: Dashboard, token: str | None = None, **options: Any
    ) -> None:
        self.dashboard = dashboard
        self.context: BrowserContext = browser.new_context(
            **(
                {"viewport": {"width": 1280, "height": 800}, "locale": "en-GB", "timezone_id": "UTC"}
                | options
            )
        )
        self.context.set_default_timeout(60_000)  # the machine may be busy
        self.page: Page = self.context.new_page()
        self.troubles: list[str] = []
        self.foreign: list[str] = []
        self.page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        self.page.on("console", self._on_console)
        self.page.on("dialog", self._on_dialog)
        self.page.on("request", self._on_request)
        self.page.goto(f"{dashboard.url}/?token={token or dashboard.token}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.troubles.append(message.text)

    def _on_dialog(self, dialog: Dialog) -> None:
        self.troubles.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith(self.dashboard.url):
            self.foreign.append(request.url)

    def open(self, path: str) -> None:
        """Open a path and wait until the page is loaded and live."""
        self.page.goto(f"{self.dashboard.url}{path}")
        self.wait_until_loaded()

    def wait_until_loaded(self) -> None:
        self.page.wait_for_selector("#connection.is-live")
        self.page.wait_for_selector("main h1")
        self.page.wait_for_selector("main .skeleton", state="detached")

    @property
    def address(self) -> str:
        return self.page.url.removeprefix(self.dashboard.url)

    def get_focused_text(self) -> str:
        """Return the text of the focused element."""
        text: str = self.page.evaluate("document.activeElement.textContent.trim()")
        return text


def find_violations(visitor: Visitor) -> list[tuple[str, str, str]]:
    """Return what axe finds on the page as it is, in both themes: the theme, the rule and the element."""
    if not AXE.exists():
        skip_or_fail("axe-core is not installed: install npm, then run `make test` again")
    page = visitor.page
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    found = []
    # All rules in one theme; in the other only what a theme can change: the colours.
    for theme, rules in (("light", "{}"), ("dark", "{runOnly: ['color-contrast']}")):
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        answer = page.evaluate(f"axe.run(document, {{resultTypes: ['violations'], ...{rules}}})")
        found += [(theme, each["id"], each["nodes"][0]["html"][:200]) for each in answer["violations"]]
    page.emulate_media(color_scheme="light")
    return found


def run_in_thread(work: Callable[[], Any]) -> Any:
    """Run it in another thread: Playwright's event loop runs in this one, and some tools start their own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def wait_until(is_true: Callable[[], Any], otherwise: str) -> None:
    """Wait for a condition; fail with the message if it does not come true."""
    assert is_true_in_time(is_true, 100), otherwise
