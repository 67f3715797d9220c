"""The documentation, once `./run docs` has built it, as readers see it."""

from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / "build" / "docs"
PAGES = (
    "index",
    "tutorial",
    "theory",
    "comparison",
    "gallery/index",
    "gallery/federated",
    "extending/criterion",
    "api/generated/fairspan.FairPCA",
)


@pytest.fixture(scope="module")
def site():
    if not (SITE / "index.html").exists():
        pytest.skip("the documentation is not built (./run docs)")
    return SITE


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_load_nothing_from_outside_and_fit_the_window(site, browser, width, scheme):
    size = {"width": width, "height": 900}
    context = browser.new_context(offline=True, viewport=size, color_scheme=scheme)
    page, wrong = context.new_page(), []
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda asked: asked.url[:5] in ("file:", "data:") or wrong.append(asked.url))
    for name in PAGES:
        page.goto((site / f"{name}.html").as_uri())
        beyond = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert (name, beyond, wrong) == (name, 0, [])
        assert page.locator("html").get_attribute("data-theme") == scheme
    context.close()


def test_formulas_are_drawn_by_the_browser_itself(site, browser):
    page = browser.new_page()
    page.goto((site / "theory.html").as_uri())
    formulas = page.locator("math")
    assert formulas.count() > 20
    assert formulas.first.bounding_box()["height"] > 8
    page.close()


def test_the_search_finds_a_method_without_a_server(site, browser):
    page = browser.new_page()
    page.goto((site / "search.html").as_uri() + "?q=minimax")
    page.locator("#search-results a").first.wait_for(timeout=10_000)
    page.close()
