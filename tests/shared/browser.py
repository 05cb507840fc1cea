"""The page of a report in a real browser: a visit, and all that it did which it shouldn't."""

import shutil
from pathlib import Path

import pytest
from playwright import sync_api

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-quic"),
)
FIRST_CHART = """new MutationObserver(() => {
  const drawn = document.querySelector("#score .plot svg");
  if (drawn) window.besideFirstChart ??= [performance.now(), document.querySelectorAll("#limit .plot svg").length];
}).observe(document, { childList: true, subtree: true });"""

MARKS = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome in PATH"),
    pytest.mark.xdist_group("browser"),
]


def browsers():
    """Chromium, until the generator ends."""
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


class Visit:
    """A page that is open, and all that it did which it shouldn't."""

    def __init__(self, browser, path: Path, hash: str = "", **context) -> None:
        self.trouble: list[str] = []
        context.setdefault("viewport", {"width": 1440, "height": 900})
        self.path = path
        self.context = browser.new_context(offline=True, **context)
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.trouble.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("dialog", lambda dialog: self.trouble.append(dialog.message))
        self.page.on("request", self.asked)
        self.page.add_init_script(FIRST_CHART)
        self.page.goto(path.as_uri() + hash)
        self.until("document.body.dataset.drawn")

    def asked(self, request) -> None:
        if request.url.partition("#")[0] != self.path.as_uri():
            self.trouble.append(request.url)

    def until(self, holds: str) -> None:
        """Wait for a condition. Playwright's own way takes the page's leave to evaluate, which its policy refuses."""
        for _ in range(100):
            if self.page.evaluate(holds):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"never came: {holds}")

    def choose(self, key: str, value: str) -> None:
        """Take another value of a filter, and wait until all is drawn again."""
        before = self.page.evaluate("document.body.dataset.drawn")
        self.page.locator(f"#filters select[data-key={key}]").select_option(value)
        self.until(f"document.body.dataset.drawn !== '{before}'")

    def press(self, name: str) -> None:
        before = self.page.evaluate("document.body.dataset.drawn")
        self.page.locator("#filters").get_by_role("button", name=name, exact=True).click()
        self.until(f"document.body.dataset.drawn !== '{before}'")

    def points(self, figure: str) -> int:
        return self.page.locator(f"#{figure} [aria-label=dot] path, #{figure} [aria-label=dot] circle").count()

    def address(self) -> str:
        return self.page.evaluate("location.hash")

    def column(self, header: str, section: str = "#results") -> list[str]:
        """The texts below a header, line by line."""
        return self.page.evaluate(
            """([section, header]) => {
              const table = document.querySelector(`${section} table`);
              const at = [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent === header);
              return [...table.tBodies[0].rows].map((row) => row.cells[at].textContent);
            }""",
            [section, header],
        )

    def sideways(self) -> list[str]:
        """What reaches past the right edge of the screen and does not scroll in a box of its own."""
        return self.page.evaluate(
            "() => [...document.body.querySelectorAll('*')]"
            ".filter((e) => e.getBoundingClientRect().right > innerWidth + 1)"
            ".filter((e) => !e.closest('.scroll, .plot svg'))"
            ".map((e) => e.outerHTML.slice(0, 80))"
        )


DRAWN = "[...document.querySelectorAll('.plot svg')].map((svg) => Number(svg.getAttribute('width')))"
"""The widths that the figures are drawn for."""

WIDTHS = pytest.mark.parametrize("width", [390, 768, 1440])
