"""A real browser that a test drives. Playwright's loop and gevent do not mix, so it lives in a process of its own.

    with Browser() as page:
        page.goto("http://127.0.0.1:8089")
        page.fill({"host": "http://127.0.0.1:8000"})

Run as a script this file is that process: one JSON list `[command, arguments...]` a line in, one JSON value a line out.
"""

import json
import os
import shutil
import subprocess
import sys

CHROMIUM = "/usr/bin/chromium" if os.path.exists("/usr/bin/chromium") else shutil.which("chromium")
ARGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
WAIT_MS = 30_000
DRAWN = """() => Object.fromEntries([...document.querySelectorAll(".js-plotly-plot")].map(plot => [
    plot.id.replace("plot-", ""),
    {
        range: plot._fullLayout.xaxis.range,
        lines: Object.fromEntries([...plot.querySelectorAll(".scatterlayer .trace")].map(
            one => [one.__data__[0].trace.name, [...one.__data__[0].trace.y]])),
    },
]))"""

PAPER = "getComputedStyle(document.body).backgroundColor"


class Browser:
    """One page of one headless Chromium; ends with the `with` block."""

    def __enter__(self):
        self._child = subprocess.Popen(
            [sys.executable, __file__],
            env={name: value for name, value in os.environ.items() if "PROXY" not in name.upper()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_):
        self._child.stdin.close()
        try:
            self._child.wait(30)
        finally:
            self._child.kill()
            self._child.wait()
            self._child.stdout.close()

    def __getattr__(self, command):
        """Return a function that gives the page a command of `Page` and returns its answer."""
        if command.startswith("_"):
            raise AttributeError(command)

        def call(*args):
            print(json.dumps([command, *map(_plain, args)]), file=self._child.stdin, flush=True)
            answer = json.loads(self._child.stdout.readline() or '{"error": "the browser is gone"}')
            if "error" in answer:
                raise AssertionError(answer["error"])
            return answer["value"]

        return call


def _plain(value):
    return value if isinstance(value, (dict, list, int, float)) else str(value)


class Page:
    """What the page can be told; each method is a command."""

    def __init__(self, page):
        self._page = page
        self._posted = []
        page.set_default_timeout(WAIT_MS)
        page.on("request", lambda request: self._posted.append(request.post_data) if request.method == "POST" else None)

    def goto(self, url):
        self._page.goto(url)
        self._page.wait_for_selector("header")

    def click(self, text):
        """Press the button or link with this text."""
        self._page.get_by_role("button", name=text, exact=True).or_(
            self._page.get_by_role("link", name=text, exact=True)
        ).first.click()

    def unfold(self, title):
        """Open a section of the form, unless it is open."""
        button = self._page.get_by_role("button", name=title, exact=True)
        if button.get_attribute("aria-expanded") == "false":
            button.click()
        self._page.locator("form .MuiAccordion-root.Mui-expanded .MuiCollapse-entered input").first.wait_for()

    def fill(self, values):
        """Fill fields by their names; true and false are for boxes to tick."""
        for name, value in values.items():
            field = self._page.locator(f'form [name="{name}"]')
            if isinstance(value, bool):
                field.set_checked(value)
            else:
                field.fill(value)

    def fields(self):
        """Return the form's fields by name: their value, or whether they are ticked."""
        return self._page.eval_on_selector_all(
            "form input[name]",
            "all => Object.fromEntries(all.map(one => [one.name, one.type == 'checkbox' ? one.checked : one.value]))",
        )

    def text(self):
        """Return all text that the page shows."""
        return self._page.inner_text("body")

    def until(self, *texts):
        """Wait until the page shows each of these texts."""
        for text in texts:
            self._page.get_by_text(text).first.wait_for(state="visible")

    def until_gone(self, text):
        """Wait until the page does not show this text any more."""
        self._page.get_by_text(text).first.wait_for(state="hidden")

    def rows(self):
        """Return the cells of the table that is shown, row by row."""
        return self._page.eval_on_selector_all(
            "table tbody tr", "all => all.map(row => [...row.cells].map(cell => cell.innerText.trim()))"
        )

    def until_rows(self, names):
        """Wait until the table has a row for each of these, by its first cell."""
        self._page.wait_for_function(
            "names => names.every(name => [...document.querySelectorAll('table tbody tr')]"
            ".some(row => row.cells[0].innerText.trim() == name))",
            arg=names,
        )

    def posted(self):
        """Return the bodies of what the page has posted."""
        return self._posted

    def look(self, url, width, scripts):
        """Open a file in a fresh page of this width and return what is wrong with it, and what is there to see.

        `trouble`: errors of the console and requests to anywhere; `charts`: drawn figures, `drawn`: each with the
        `range` of its x axis and the values of its `lines` that have a path in the picture; `tables` and `headings`:
        those that are visible; `cells`: texts of the rows of all tables; `wide`: width of the page's content; `papers`:
        colours of the page in light, dark and on paper.
        """
        context = self._page.context.browser.new_context(
            java_script_enabled=bool(scripts), viewport={"width": width, "height": 800}
        )
        page, trouble = context.new_page(), []
        page.on("console", lambda one: trouble.append(one.text) if one.type == "error" else None)
        page.on("pageerror", lambda one: trouble.append(str(one)))
        page.on("request", lambda one: trouble.append(one.url) if one.url.startswith("http") else None)
        page.goto(url)
        if scripts and page.locator("#figures").count():
            page.locator(".js-plotly-plot .main-svg").first.wait_for()
        seen = {
            "trouble": trouble,
            "charts": page.locator(".js-plotly-plot").count(),
            "drawn": page.evaluate(DRAWN) if scripts else {},
            "cells": page.eval_on_selector_all(
                "tbody tr", "all => all.map(row => [...row.cells].map(cell => cell.innerText.trim()))"
            ),
            "tables": sum(table.is_visible() for table in page.locator("table").all()),
            "headings": page.locator("h2").all_inner_texts(),
            "wide": page.evaluate("document.documentElement.scrollWidth") if scripts else width,
            "papers": [page.evaluate(PAPER) for _ in self._media(page)] if scripts else [],
        }
        context.close()
        return seen

    def _media(self, page):
        """Show the page in light, dark and on paper, one after the other."""
        for media in ({"color_scheme": "light"}, {"color_scheme": "dark"}, {"media": "print"}):
            page.emulate_media(**media)
            yield

    def shot(self, path):
        """Save a picture of the whole page."""
        self._page.screenshot(path=path, full_page=True)


def main():
    """Answer commands until the input ends."""
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        page = Page(chromium.new_page(viewport={"width": 1280, "height": 900}))
        for line in sys.stdin:
            command, *args = json.loads(line)
            try:
                answer = {"value": getattr(page, command)(*args)}
            except Error as error:
                answer = {"error": f"{command} {args}: {error}"}
            print(json.dumps(answer), flush=True)
        chromium.close()


if __name__ == "__main__":
    main()
