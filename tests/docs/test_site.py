"""The site builds without warnings, has no dead links, and loads nothing from the network."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from scripts.pages import ROOT

LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}
PLEASANT = {"canonical", "next", "prev", "edit", "alternate", "author", "license"}  # links that load nothing


@dataclass
class Page(HTMLParser):
    """The anchors, links and resources of one page."""

    path: Path
    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {name for name in (given.get("id"), given.get("name")) if name}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")
        if tag in LOADED and given.get(LOADED[tag]) and given.get("rel") not in PLEASANT:
            self.loads.append(given[LOADED[tag]] or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return {page: Page(page) for page in folder.rglob("*.html")}


def test_every_page_of_the_documentation_exists(site: dict[Path, Page]):
    written = {page.with_suffix("").name for page in (ROOT / "docs").rglob("*.md")}

    assert written <= {page.with_suffix("").name for page in site}


def test_no_link_and_no_anchor_is_dead(site: dict[Path, Page]):
    assert [problem for page in site.values() for problem in find_dead_links(page, site)] == []


def find_dead_links(page: Page, site: dict[Path, Page]) -> Iterator[str]:
    for link in [*page.links, *page.loads]:
        address = urlsplit(link)
        if address.scheme in {"http", "https"}:
            if not address.hostname or "." not in address.hostname or " " in link:
                yield f"{page.path.name}: {link} is not an address"
        elif not address.scheme and page.path.name != "404.html":  # whose links begin at the root of a server
            target = (page.path.parent / unquote(address.path)).resolve() if address.path else page.path
            if not target.exists():
                yield f"{page.path.name}: {link}"
            elif (
                address.fragment and target in site and unquote(address.fragment) not in site[target].anchors
            ):
                yield f"{page.path.name}: {link} has no such place"


def test_nothing_is_loaded_from_elsewhere(site: dict[Path, Page]):
    foreign = {load for page in site.values() for load in page.loads if urlsplit(load).netloc}
    styles = {style for page in site for style in page.parent.rglob("*.css")}

    assert foreign == set()
    assert styles
    for style in styles:
        text = style.read_text(encoding="utf-8")
        assert "url(http" not in text
        assert "@import" not in text
    assert not any("fonts.g" in page.path.read_text(encoding="utf-8") for page in site.values())


def test_test_attributes_are_not_shown(site: dict[Path, Page]):
    for page in site.values():
        text = page.path.read_text(encoding="utf-8")
        assert "<!-- console" not in text
        assert "<!-- fence" not in text
        if page.path.name != "about-these-pages.html":
            assert "not-run=" not in text
