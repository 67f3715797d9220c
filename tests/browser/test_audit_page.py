"""The audit page in a real browser: it opens clean, slides, sorts, fits, prints, and stays safe."""

import csv
import json
import re
from pathlib import Path

import pytest

from internal.report.audit_pages import hostile_pair, twelve_groups, two_groups
from page_tree import parse_page

PAGES = pytest.mark.parametrize("make_page", [two_groups, twelve_groups])
CONTRAST = Path(__file__).with_name("contrast.js").read_text(encoding="utf-8")


def texts(page, selector):
    return page.locator(selector).all_text_contents()


def slide_to(page, index):
    page.locator("#slider").evaluate(
        "(slider, index) => { slider.value = index; slider.dispatchEvent(new Event('input')); }",
        index,
    )


def page_figures(page):
    """Return the figures of the groups, the total error and the loadings in the page."""
    figures = texts(page, ":is(#trade-off, #dimensions) tbody [data-text]")
    total = texts(page, ":is(#trade-off, #dimensions) [data-text]")[len(figures)]
    return figures, total, texts(page, "[data-loading]")


def slider_steps(text):
    """Return the steps of the slider, which a page has as JSON."""
    return json.loads(next(parse_page(text).all("script")).text)["steps"]


def expected_figures(make_page, index):
    report, text = make_page
    steps = slider_steps(text)
    texts = steps[index]["texts"]
    loadings = steps[index]["loadings"]
    n_group_texts = 3 * len(report.group_names)
    n_components = max(len(step["loadings"]) for step in steps)
    expected_loadings = [
        f"{loadings[j][i]:.2f}".replace("-", "\u2212") if j < len(loadings) else ""
        for i in range(len(report.curves.features))
        for j in range(n_components)
    ]
    return texts[:n_group_texts], texts[n_group_texts], expected_loadings


@PAGES
def test_opens_clean_and_shows_the_answer_first(make_page, show):
    report, text = make_page()
    page = show(text)
    assert page.title() == report.provenance.title
    assert page_figures(page) == expected_figures((report, text), report.curves.main_step)
    assert page.locator("#slider-controls").is_visible()


@PAGES
def test_slider_moves_figures_marks_and_loadings(make_page, show):
    report, text = make_page()
    page = show(text)
    n = len(report.curves.steps)
    places = []
    for index in (0, n // 3, n - 1):
        slide_to(page, index)
        assert page_figures(page) == expected_figures((report, text), index)
        circles = page.locator("circle[data-mark]")
        places.append(
            circles.evaluate_all("all => all.map(c => [c.cx.baseVal.value, c.cy.baseVal.value])")
        )
        step = slider_steps(text)[index]
        label = page.locator("#slider").get_attribute("aria-valuetext")
        assert label.replace("_", " ") == step["label"].replace("_", " ")
        assert page.locator("#slider-announcement").text_content() == step["announcement"]
    assert places[0] != places[1] != places[2]
    strengths = page.locator("[data-loading]").evaluate_all(
        "all => all.map(cell => Number(cell.style.getPropertyValue('--strength')))"
    )
    loadings = expected_figures(make_page(), n - 1)[2]
    expected = [abs(float(loading.replace("\u2212", "-") or 0)) for loading in loadings]
    assert strengths == pytest.approx(expected)


def test_slider_and_shortcuts_work_by_keyboard(show):
    report, text = two_groups()
    page = show(text)
    start = report.curves.main_step
    plain = report.curves.pca_step
    slider = page.locator("#slider")
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert page_figures(page) == expected_figures((report, text), start + 1)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert page_figures(page) == expected_figures((report, text), start - 1)
    page.keyboard.press("Home")
    assert page_figures(page) == expected_figures((report, text), 0)
    shortcuts = page.locator(".shortcut")
    assert shortcuts.all_text_contents() == ["PCA", "minimax loss"]
    shortcuts.nth(0).focus()
    page.keyboard.press("Enter")
    assert page_figures(page) == expected_figures((report, text), plain)
    assert [shortcut.get_attribute("aria-pressed") for shortcut in shortcuts.all()] == [
        "true",
        "false",
    ]
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert page_figures(page) == expected_figures((report, text), start)
    assert slider.input_value() == str(start)


def test_mark_stands_where_the_answer_is_drawn(show):
    report, text = two_groups()
    page = show(text)
    slide_to(page, report.curves.pca_step)
    mark = page.locator(":is(#trade-off, #dimensions) circle[data-mark]").bounding_box()
    center = (mark["x"] + mark["width"] / 2, mark["y"] + mark["height"] / 2)
    # PCA's own marker is drawn by matplotlib, hollow.
    markers = page.locator(":is(#trade-off, #dimensions) .side-by-side use").evaluate_all(
        "all => all.map(each => each.getBoundingClientRect())"
        ".map(box => [box.x + box.width / 2, box.y + box.height / 2])"
    )
    nearest = min(max(abs(x - center[0]), abs(y - center[1])) for x, y in markers)
    assert nearest < 1


@PAGES
def test_sorting_is_by_value_and_announced(make_page, show):
    report, text = make_page()
    page = show(text)
    table = page.locator("#groups table.sortable")
    headings = table.locator("thead th")
    records = zip(report.pca.records, report.group_names, strict=True)
    groups = [{**record, "group": name} for record, name in records]
    assert {heading.get_attribute("aria-sort") for heading in headings.all()} == {"none"}
    button = headings.nth(1).locator("button")
    button.focus()
    page.keyboard.press("Enter")
    rising = sorted(groups, key=lambda group: group["n_rows"])
    assert _first_cells(table) == [group["group"].strip() or "(no name)" for group in rising]
    assert headings.nth(1).get_attribute("aria-sort") == "ascending"
    assert "rows, ascending" in page.locator("#status").text_content()
    page.keyboard.press("Space")
    assert _first_cells(table) == [group["group"].strip() or "(no name)" for group in rising[::-1]]
    assert headings.nth(1).get_attribute("aria-sort") == "descending"
    headings.nth(3).locator("button").click()
    assert headings.nth(1).get_attribute("aria-sort") == "none"
    by_variance = sorted(groups, key=lambda group: group["observed_total_variance"])
    assert _first_cells(table) == [group["group"].strip() or "(no name)" for group in by_variance]


@pytest.mark.parametrize(
    ("names", "rising"),
    [
        # The old order of these went round in a circle.
        (["9", "1a", "10", "2"], ["1a", "2", "9", "10"]),
        (["1e2", "10", "-1", "9.5"], ["-1", "9.5", "10", "1e2"]),
        (["Infinity", "b10", "b9", "NaN"], ["b9", "b10", "Infinity", "NaN"]),
    ],
)
def test_names_sort_by_one_rule_in_a_column(names, rising, show):
    head, section, text = two_groups()[1].partition('<section id="groups"')
    towns, hills = (
        re.search(rf'<tr>\s*<th scope="row" data-value="{name}">.*?</tr>', text, re.S)[0]
        for name in ("towns", "hills")
    )
    rows = "".join(hills.replace("hills", name) for name in names)
    page = show(head + section + text.replace(towns, "", 1).replace(hills, rows, 1))
    table = page.locator("#groups table.sortable")
    table.locator("thead button").first.click()
    assert _first_cells(table) == rising
    table.locator("thead button").first.click()
    assert _first_cells(table) == rising[::-1]


def test_rows_of_one_value_keep_their_order_and_totals_stay_below(show):
    page = show(two_groups()[1])
    table = page.locator("#criteria table.sortable").first
    original_order = _first_cells(table)
    for _ in range(2):
        table.locator("thead button").last.click()
        assert set(texts(table, "tbody td:last-child")) == {"proven"}
        assert _first_cells(table) == original_order
    page.locator("#pca thead button").first.click()
    assert texts(page, "#pca tfoot th") == ["all rows"]


def _first_cells(table):
    return [cell_text.strip() for cell_text in table.locator("tbody th").all_text_contents()]


@pytest.mark.parametrize("width", [320, 400, 768, 1920])
@PAGES
def test_nothing_overflows_the_window(make_page, width, show):
    page = show(make_page()[1], viewport={"width": width, "height": 800})
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    wide, tall = page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
    )
    assert wide <= width
    assert tall > 800
    # What is wider scrolls inside its own container, which the keyboard reaches.
    beyond = page.evaluate(
        """width => [...document.querySelectorAll("main *, header *, footer *")]
            .filter(each => each.getBoundingClientRect().right > width + 1)
            .filter(each => !each.closest("[tabindex='0'], .visually-hidden"))
            .map(each => each.outerHTML.slice(0, 90))""",
        width,
    )
    assert beyond == []


@pytest.mark.parametrize("make_page", [twelve_groups, hostile_pair])
def test_hostile_names_stay_text(make_page, show):
    report, text = make_page()
    page = show(text)
    slide_to(page, 0)
    page.locator("#groups thead button").first.click()
    assert page.locator("img, b, iframe, object, embed, main script").count() == 0
    assert page.locator("[onerror], [onload], [onclick]").count() == 0
    names = set(report.group_names)
    assert set(_first_cells(page.locator("#groups table"))) == names
    svg_texts = {svg_text.rstrip("\u2026") for svg_text in texts(page, "svg text")} - {""}
    assert all(any(name.startswith(svg_text) for svg_text in svg_texts) for name in names)
    assert any(name in page.locator("#slider-announcement").text_content() for name in names)


def test_policy_is_in_force(show):
    page = show(two_groups()[1], expect_wrong=True)
    page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.injected = true";
            document.body.append(script);
            const button = document.createElement("button");
            button.setAttribute("onclick", "window.injected = true");
            document.body.append(button);
            button.click();
            const style = document.createElement("style");
            style.textContent = "h1 { display: none }";
            document.head.append(style);
        }"""
    )
    assert page.evaluate("window.injected") is None
    assert page.locator("h1").is_visible()
    is_reachable = page.evaluate("fetch('data:text/plain,x').then(() => true, () => false)")
    assert is_reachable is False


@PAGES
def test_contrast_is_enough_in_light_and_dark(make_page, show):
    papers = []
    for scheme in ("light", "dark"):
        page = show(make_page()[1], color_scheme=scheme)
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        contrasts = page.evaluate(CONTRAST)
        assert contrasts["n"] > 200
        assert contrasts["poor"] == [], scheme
        papers.append(sum(contrasts["paper"]))
    assert papers[0] > 3 * 200 > 3 * 60 > papers[1]


@PAGES
def test_print_hides_controls_and_what_is_folded(make_page, show):
    page = show(make_page()[1], color_scheme="dark")
    page.emulate_media(media="print")
    assert page.locator("#slider-controls").is_hidden()
    assert page.locator("nav").is_hidden()
    # Dark windows print on white paper.
    assert page.evaluate(CONTRAST)["paper"] == [255, 255, 255]
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    # What is folded is not printed, but for notes.
    assert page.locator("details:not(.open-in-print) > summary:visible").count() == 0
    assert page.locator("details.open-in-print li:visible").count() > 0
    assert page.locator("button:visible").count() == 0
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    page.locator("#groups thead button").first.click()
    assert page.locator("#status").text_content().startswith("Sorted by")
    page.emulate_media(media="print")
    pdf = page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 8


@PAGES
def test_without_javascript_everything_but_the_slider_is_there(make_page, show):
    report, text = make_page()
    page = show(text, java_script_enabled=False)
    assert page.locator("#slider-controls").is_hidden()
    assert "requires JavaScript" in page.locator(":is(#trade-off, #dimensions)").inner_text()
    assert page_figures(page) == expected_figures((report, text), report.curves.main_step)
    page.locator(":is(#trade-off, #dimensions) summary").last.click()
    steps = page.locator(":is(#trade-off, #dimensions) details").last.locator("tbody tr")
    assert steps.count() == len(report.curves.steps)
    assert steps.first.is_visible()


def test_outline_of_the_page_reaches_a_screen_reader(show):
    page = show(two_groups()[1])
    main = page.get_by_role("main")
    for name in ("Summary", "Groups", "Effect of PCA", "Findings", "Certificate"):
        assert main.get_by_role("region", name=name, exact=True).count() == 1
    slider = page.get_by_role("slider", name="Position on the frontier")
    assert slider.count() == 1
    # Losses under PCA, those under a fair model that is not recommended, and two of other sections.
    assert page.get_by_role("img").count() == 4
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the summary"
    # No table scrolls in a wide window, so none is a stop.
    assert page.locator(".scroll[tabindex='0']").count() == 0
    # Nor on a phone, where the cells of wide tables are stacked, each with its heading.
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.locator("#summary .scroll[tabindex='0'], #pca .scroll[tabindex='0']").count() == 0
    cell = page.locator("#pca table td").first
    content = cell.evaluate("cell => getComputedStyle(cell, '::before').content")
    assert content == '"rows"'
    key_figures = " ".join(page.locator("#summary, #criteria").all_text_contents())
    assert re.search(r"Proven|Not proven", key_figures)


@PAGES
def test_tables_and_facts_are_downloaded_without_a_request(make_page, show):
    report, text = make_page()
    page = show(text)
    with page.expect_download() as waiting:
        page.locator("#groups .download").first.click()
    rows = list(csv.reader(waiting.value.path().read_text(encoding="utf-8").splitlines()))
    assert rows[0] == ["group", "rows", "share", "total variance"]
    groups = report.pca.records
    expected = [group["observed_total_variance"] for group in groups]
    assert [float(row[3]) for row in rows[1:]] == pytest.approx(expected, rel=1e-11)
    assert [int(row[1]) for row in rows[1:]] == [group["n_rows"] for group in groups]
    with page.expect_download() as waiting:
        page.locator("#download-data").click()
    facts = json.loads(waiting.value.path().read_text(encoding="utf-8"))
    assert facts["verdict"]["summary"] == report.verdict.summary
    downloaded_groups = facts["models"][1]["groups"]
    report_groups = report.main.records
    assert [group["group"] for group in downloaded_groups] == [
        group["group"] for group in report_groups
    ]
    for name in ("observed_error", "observed_loss", "expected_loss"):
        values = (
            [group[name] for group in groups] for groups in (downloaded_groups, report_groups)
        )
        for one, other in zip(*values, strict=True):
            assert one == (other if other is None else pytest.approx(other, rel=1e-8))


@PAGES
def test_words_of_states_and_outcomes_are_never_broken(make_page, show):
    page = show(make_page()[1], viewport={"width": 390, "height": 800})
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    # A word that is broken over two lines has more boxes than one.
    broken = page.evaluate(
        """() => {
            const broken = [];
            for (const cell of document.querySelectorAll("td[data-state]")) {
                const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
                while (walker.nextNode()) {
                    for (const word of walker.currentNode.data.matchAll(/\\w+/g)) {
                        const range = document.createRange();
                        range.setStart(walker.currentNode, word.index);
                        range.setEnd(walker.currentNode, word.index + word[0].length);
                        if (range.getClientRects().length > 1) broken.push(word[0]);
                    }
                }
            }
            return broken;
        }"""
    )
    assert page.locator("td[data-state]").count() > 5
    assert broken == []


@PAGES
def test_verdict_and_picture_are_on_the_first_screen(make_page, show):
    report, text = make_page()
    page = show(text)
    for selector in (".purpose", "#summary .lead", "#summary .kind", "#summary figure"):
        box = page.locator(selector).first.bounding_box()
        assert box["y"] < 900, selector
    assert page.locator("#summary table").count() == 0
    assert page.locator("#summary .kind").text_content().lower() == report.verdict.kind.lower()
