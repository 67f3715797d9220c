"""A real Chromium, headless and offline, and a page opened in it.

Where there is no Chromium these tests skip and say so; with FAIRSPAN_REQUIRE_BROWSER they fail.
"""

import os
import shutil

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def _missing(reason):
    message = f"########## The audit page was NOT opened in a browser: {reason} ##########"
    if os.environ.get("FAIRSPAN_REQUIRE_BROWSER"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def browser():
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        _missing("there is no Chromium (Debian: apt-get install chromium)")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("the Python package playwright is not installed")
    with sync_playwright() as playwright:
        running_browser = playwright.chromium.launch(executable_path=path, args=list(_ARGUMENTS))
        yield running_browser
        running_browser.close()


@pytest.fixture
def show(browser, tmp_path):
    """Open a page in a new window; any error in it fails the test at its end."""
    contexts = []
    wrong = []

    def open_page(text, *, expect_wrong=False, **settings):
        settings = {"viewport": {"width": 1280, "height": 900}, **settings}
        context = browser.new_context(offline=True, reduced_motion="reduce", **settings)
        contexts.append(context)
        path = tmp_path / f"page{len(contexts)}.html"
        path.write_text(text, encoding="utf-8")
        page = context.new_page()
        if not expect_wrong:
            page.on("console", lambda message: wrong.append(f"console: {message.text}"))
            page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
            page.on("dialog", lambda dialog: (wrong.append("a dialog"), dialog.dismiss()))
            page.on(
                "request",
                lambda request: None if request.url == path.as_uri() else wrong.append(request.url),
            )
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []
