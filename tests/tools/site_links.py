"""Do the links of the built site lead somewhere? `make docs` runs it: python tests/tools/site_links.py SITE"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes what links and what can be linked to."""
        for name, value in attrs:
            if value is not None and name in ("href", "src"):
                self.links.append(value)
            elif value is not None and name in ("id", "name"):
                self.anchors.add(value)


def main() -> None:
    """Prints every link that leads nowhere; exit code 1 if there is one."""
    site = Path(sys.argv[1]).resolve()
    pages = {path: Page(path.read_text("utf-8")) for path in site.rglob("*.html")}
    broken = []
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # its links are relative to the root of the server
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            missing = not target.exists() or (
                parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors
            )
            if missing and parts.fragment != "__top":
                broken.append(f"{path.relative_to(site)}: {link}")
    print("\n".join(broken) or f"{len(pages)} pages, no broken link")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
