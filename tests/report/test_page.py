"""The audit page: well-formed, self-contained, the same bytes, and what the facts say."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from audit_pages import HOSTILE, PAGES, SHOWN, hostile_pair, twelve_groups, two_groups
from fairspan.formatting.text import called, change, decimals_of, number, relative
from fairspan.report.page.rendering import page_of, said
from page_tree import tree_of
from report_rows import facts_by, made_rows

# Whatever the names hold, nothing else comes to be.
ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "header", "nav", "main", "section"),
    *("footer", "script", "noscript", "a", "div", "span", "br", "h1", "h2", "h3", "p", "ol", "ul"),
    *("li", "dl", "dt", "dd", "table", "caption", "thead", "tbody", "tfoot", "tr", "th", "td"),
    *("details", "summary", "bdi", "strong", "figure", "figcaption", "label", "button", "input"),
    *("output", "pre", "code", "svg", "g", "path", "defs", "clippath", "rect", "use", "text"),
    *("tspan", "wbr", "pattern", "circle"),
}


@pytest.mark.long
@PAGES
def test_is_well_formed_html_with_landmarks_and_headings_in_order(made):
    page = made()[1]
    assert page.startswith('<!DOCTYPE html>\n<html lang="en">')
    tree = tree_of(page)
    for landmark in ("header", "nav", "main", "footer", "h1", "title"):
        assert len(list(tree.all(landmark))) == 1, landmark
    levels = [int(each.tag[1]) for each in tree.all("h1", "h2", "h3")]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [each.attributes["id"] for each in tree.all() if "id" in each.attributes]
    assert len(ids) == len(set(ids))
    pointers = [
        each.attributes[name].removeprefix("#")
        for each in tree.all()
        for name in ("href", "for", "aria-labelledby")
        if name in each.attributes
    ]
    assert pointers
    assert set(pointers) <= set(ids)


@PAGES
def test_tables_have_captions_and_scopes_and_figures_are_told(made):
    tree = tree_of(made()[1])
    for table in tree.all("table"):
        assert len(list(table.all("caption"))) == 1
        widths = {len(list(row.all("th", "td"))) for row in table.all("tr")}
        assert len(widths) == 1
        assert all(cell.attributes.get("scope") in ("row", "col") for cell in table.all("th"))
    for figure in tree.all("figure"):
        assert len(list(figure.all("figcaption"))) == 1
        (svg,) = figure.all("svg")
        assert svg.attributes["role"] == "img"
        assert re.search(r"\d", svg.attributes["aria-label"])
    (slider,) = (each for each in tree.all("input"))
    assert [each.attributes["for"] for each in tree.all("label")] == [slider.attributes["id"]]


@PAGES
def test_asks_for_nothing_outside_itself(made):
    page = made()[1]
    targets = re.findall(r'\s(?:href|src|action|srcset|data|poster)="([^"]*)"', page)
    assert targets
    assert all(each.startswith("#") for each in targets)
    assert "@import" not in page
    referred = re.findall(r"url\(([^)]*)\)", page)
    assert referred
    assert all(each.startswith("#") for each in referred)
    namespaces = set(re.findall(r'="(https?://[^"]*)"', page))
    assert namespaces == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


@PAGES
def test_every_colour_of_a_figure_is_the_page_s_own(made):
    figures = re.findall(r"<svg .*?</svg>", made()[1], re.S)
    assert len(figures) >= 3
    for svg in figures:
        assert "var(--ink)" in svg
        assert not re.findall(r"(?:fill|stroke|color): #\w+", svg)


@PAGES
def test_policy_allows_its_own_script_and_style_by_their_hashes_and_nothing_else(made):
    tree = tree_of(made()[1])
    (meta,) = (each for each in tree.all("meta") if "http-equiv" in each.attributes)
    policy = dict(part.split(" ", 1) for part in meta.attributes["content"].split("; "))
    (style,) = tree.all("style")
    *data, script = tree.all("script")
    assert {each.attributes["type"] for each in data} == {"application/json"}
    assert policy == {
        "default-src": "'none'",
        "script-src": f"'sha256-{_hash(script.text)}'",
        "style-src-elem": f"'sha256-{_hash(style.text)}'",
        "style-src-attr": "'unsafe-inline'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def _hash(text):
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@pytest.mark.long
def test_hostile_names_are_text_everywhere():
    page = twelve_groups()[1]
    tree = tree_of(page)
    assert {each.tag for each in tree.all()} <= ALLOWED
    assert not [name for each in tree.all() for name in each.attributes if name.startswith("on")]
    shown = [name or "(no name)" for name in SHOWN]
    tables = {next(table.all("caption")).text: table for table in tree.all("table")}
    groups = [next(row.all("th")).text for row in _body(tables["The groups"])]
    assert sorted(groups) == sorted(shown)
    (names,) = (each for each in tree.all("ul") if each.attributes.get("class") == "names")
    assert [each.text for each in names.all("li")] == list(SHOWN[:8])
    assert "<i>rows</i>" in tree.text
    data = next(tree.all("script")).text
    assert not set("<>&") & set(data)
    told = " ".join(step["said"] for step in json.loads(data)["steps"])
    assert any(name in told for name in HOSTILE)


@pytest.mark.long
def test_hostile_names_in_every_step_end_no_script():
    facts, page = hostile_pair()
    tree = tree_of(page)
    assert {each.tag for each in tree.all()} <= ALLOWED - {"img", "b"}
    data = next(tree.all("script")).text
    assert not set("<>&") & set(data)
    for step in json.loads(data)["steps"]:
        assert all(group["group"] in step["said"] for group in facts["data"]["groups"])
    assert facts["data"]["name"] == "<i>rows</i>"


def _body(table):
    return next(table.all("tbody")).all("tr")


def test_json_of_the_walk_has_what_the_facts_have():
    facts, page = two_groups()
    data = json.loads(next(tree_of(page).all("script")).text)
    points = facts["steps"]["points"]
    assert len(data["steps"]) == len(points) <= 40
    assert data["jumps"] == {"plain": facts["steps"]["plain"], "main": facts["steps"]["start"]}
    for step, point in zip(data["steps"], points, strict=True):
        for told, known in zip(step["loadings"], point["components"], strict=True):
            assert told == pytest.approx(known, abs=0.00501)


@pytest.mark.long
def test_same_facts_give_the_same_bytes_in_another_process(tmp_path):
    (facts, page), (more_facts, other_page) = two_groups(), twelve_groups()
    (tmp_path / "facts.json").write_text(json.dumps([facts, more_facts]), encoding="utf-8")
    program = (
        "import json, sys; from fairspan.report.page.rendering import page_of\n"
        "both = json.load(open(sys.argv[1], encoding='utf-8'))\n"
        "sys.stdout.buffer.write(''.join(map(page_of, both)).encode())"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "facts.json")]
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    other = subprocess.run(command, capture_output=True, check=True, env=environment)
    assert other.stdout.decode() == page + other_page


@pytest.mark.long
def test_page_stays_small_with_many_groups_steps_and_features():
    facts = json.loads(json.dumps(twelve_groups()[0]))
    k, n_steps, dimensions = 12, 40, list(range(1, 80, 2))
    facts["data"]["feature_names"] = [f"a feature with a name {i}" for i in range(81)]
    values = [[(7 * i + g) / 13 for g in range(k)] for i in range(n_steps)]
    curve = {"errors_here": values, "losses_here": values}
    facts["by_dimension"] = {
        "dimensions": dimensions,
        "best": values,
        "plain": curve,
        "fair": {**curve, "criterion": "minimax_loss", "status": ["optimal"] * n_steps},
        "expected": {
            "dimensions": dimensions[:16],
            "plain": {
                **curve,
                **dict.fromkeys(
                    (
                        "expected_losses",
                        "expected_losses_low",
                        "expected_losses_high",
                        "expected_errors",
                    ),
                    values[:16],
                ),
                "states": [["harmed"] * k] * 16,
            },
        },
    }
    facts["settings"]["n_components"] = dimensions[20]
    features = facts["data"]["feature_names"][:20]
    point = {
        **facts["steps"]["points"][0],
        "components": [[-0.123] * 20] * 5,
        "variances_here": [1.2345] * 5,
    }
    points = [
        {**point, "n_components": d, "errors_here": each, "losses_here": each}
        for d, each in zip(dimensions, values, strict=True)
    ]
    facts["steps"] |= {"features": features, "points": points, "start": 20}
    page = page_of(facts)
    # Of which 50 000 are the figures that it gives as JSON.
    assert len(page.encode()) < 450_000
    assert page.count("a feature with a name 7<") >= 2


def copy_of(made):
    return json.loads(json.dumps(made()[0]))


def tables_of(page):
    return {next(table.all("caption")).text: table for table in tree_of(page).all("table")}


def cells_of(table):
    return [
        [cell.text for cell in row.all("th", "td")] for row in next(table.all("tbody")).all("tr")
    ]


OF_CRITERIA = "Ordinary PCA and each fair criterion"


def named(group):
    return f"'<bdi>{group}</bdi>'"


@PAGES
def test_table_of_pca_shows_the_facts_with_the_decimals_of_each_column(made):
    facts, page = made()
    plain = facts["models"][0]
    table = tables_of(page)[f"PCA with {facts['settings']['n_components']}\u00a0dimensions"]
    errors, best, losses = (
        decimals_of([group[what] for group in plain["groups"]] + [total])
        for what, total in (
            ("error_here", plain["total_error_here"]),
            ("best_error_here", None),
            ("loss_here", None),
        )
    )
    for row, group in zip(cells_of(table), plain["groups"], strict=True):
        low, high = (number(group[end], errors) for end in ("error_here_low", "error_here_high"))
        assert row[1] == f"{number(group['error_here'], errors)}{low} to\u00a0{high}"
        assert row[2:4] == [
            number(group["best_error_here"], best),
            number(group["loss_here"], losses),
        ]
        assert row[4] == relative(group["loss_here"] / group["best_error_here"])
        assert row[5].split() == [f"{100 * group['kept_here']:.1f}", "%"]
        for text, what in zip(row[2:4], ("best_error_here", "loss_here"), strict=True):
            assert float(text) == pytest.approx(group[what], rel=0.005)
    (total,) = next(table.all("tfoot")).all("tr")
    assert [cell.text for cell in total.all("th", "td")][:2] == [
        "all rows",
        number(plain["total_error_here"], errors),
    ]


@PAGES
def test_table_of_criteria_has_every_model_and_what_it_asks(made):
    facts, page = made()
    table = tables_of(page)[OF_CRITERIA]
    head = next(table.all("thead")).text
    if made is two_groups:
        names = [group["group"] for group in facts["models"][0]["groups"]]
        assert all(head.count(name) == 2 for name in names), "error and loss of each"
    else:
        assert "largest loss" in head
    decimals = decimals_of(model["total_error_here"] for model in facts["models"])
    for row, model in zip(cells_of(table), facts["models"], strict=True):
        assert row[0].replace(" ", "_").lower().startswith(model["name"].split(" (")[0].lower())
        assert model["asks"] in row[0]
        told = change(model["total_change_here"]) + number(model["total_error_here"], decimals)
        assert row[-2] == told
        assert (row[-1] == "proven") == (model["certificate"]["status"] == "optimal")
    for each in facts["unavailable"]:
        assert each["why"] in tree_of(page).text


def test_an_answer_is_called_proven_where_it_is_and_nowhere_else():
    facts = copy_of(two_groups)
    facts["models"][1]["certificate"]["status"] = "open gap"
    told = [row[-1] for row in cells_of(tables_of(page_of(facts))[OF_CRITERIA])]
    assert [each == "proven" for each in told] == [
        model["certificate"]["status"] == "optimal" for model in facts["models"]
    ]
    assert told[1] == "open gap"
    assert "proven" in told


@pytest.mark.long
@pytest.mark.parametrize("n_alike", [1, 2, 5])
def test_groups_that_share_the_largest_loss_are_told_alike_everywhere(n_alike):
    facts = copy_of(twelve_groups)
    main = next(model for model in facts["models"] if model["is_main"])
    point = facts["steps"]["points"][facts["steps"]["start"]]
    for i, group in enumerate(main["groups"]):
        # As a fit leaves them: the last of those that share it is ahead by rounding.
        loss = 7.0 + 1e-9 * i if i < n_alike else 1.0
        group["loss_here"] = point["losses_here"][i] = loss
    main["largest_loss_here"] = max(group["loss_here"] for group in main["groups"])
    page, first = page_of(facts), called(main["groups"][0]["group"])
    whose = first if n_alike == 1 else f"{first} and {n_alike - 1} more"
    rows = cells_of(tables_of(page)[OF_CRITERIA])
    assert [row[2] for row in rows][facts["models"].index(main)] == whose
    assert f"largest loss 7, of {whose};" in tree_of(page).text
    told = f"{n_alike}\u00a0groups alike" if n_alike > 1 else f"'{first}'"
    assert f"for {told}" in re.sub("<[^>]*>", "", str(said("answers", facts)))


@PAGES
def test_sorting_values_are_those_of_the_facts(made):
    facts, page = made()
    (rows,) = (
        [row.all("th", "td") for row in next(table.all("tbody")).all("tr")]
        for caption, table in tables_of(page).items()
        if caption == "The groups"
    )
    values = [[cell.attributes["data-value"] for cell in row] for row in rows]
    for told, group in zip(values, facts["data"]["groups"], strict=True):
        assert told[0] == group["group"]
        known = [group["n"], group["proportion"], group["total_variance_here"]]
        assert list(map(float, told[1:])) == known


@PAGES
def test_findings_stand_with_code_message_and_remedy_and_warnings_first(made):
    facts, page = made()
    main = next(model["name"] for model in facts["models"] if model["is_main"])
    lists = [
        list(each.all("li"))
        for each in tree_of(page).all("ol")
        if each.attributes.get("class") == "findings"
    ]
    # Those about criteria that were only compared stand apart.
    about_answer = tree_of(page).with_id("findings").children
    answer = " ".join(each.text for each in about_answer if not isinstance(each, str))
    others = answer.partition("What was found about the other criteria")[2]
    for found in facts["findings"]:
        text = answer if found["model"] in (None, "PCA", main) else others
        assert all(found[part] in text for part in ("code", "message", "remedy"))
    for entries in lists:
        severities = [each.attributes["class"] for each in entries]
        assert severities == sorted(severities, reverse=True)


def test_summary_says_whose_loss_rises():
    facts, _ = two_groups()
    plain, main = (facts["models"][i]["groups"] for i in (0, 1))
    assert facts["models"][1]["is_main"]
    (payer,) = (g for g in (0, 1) if main[g]["loss_here"] > plain[g]["loss_here"])
    before, after = (number(groups[payer]["loss_here"]) for groups in (plain, main))
    told = f"The loss of {named(main[payer]['group'])} rises from {before} to {after}."
    assert told in said("summary", facts)


@PAGES
def test_page_tells_how_it_was_made_and_how_to_verify_it(made):
    facts, page = made()
    text = tree_of(page).text
    told = facts["made"]
    for part in (told["input_sha256"], told["command"], told["numpy"], told["scikit-learn"]):
        assert part in text
    assert facts["verification"]["snippet"] in text
    assert all(each in text for each in facts["verification"]["words"])


def test_marks_of_the_walk_lie_on_the_drawn_frontier():
    facts, page = two_groups()
    tree = tree_of(page)
    steps = json.loads(next(tree.all("script")).text)["steps"]
    marks = np.array([step["marks"][0] for step in steps])
    errors = np.array([point["errors_here"] for point in facts["steps"]["points"]])
    # Where a mark is depends linearly on the errors, downwards for the second group.
    for axis, sign in ((0, 1), (1, -1)):
        slope, offset = np.polyfit(errors[:, axis], marks[:, axis], 1)
        assert slope * sign > 0
        assert slope * errors[:, axis] + offset == pytest.approx(marks[:, axis], abs=0.1)
    section = tree.with_id("walk")
    # The frontier is the longest line of the first figure.
    svg = next(section.all("svg"))
    drawn = max((_points(path) for path in svg.all("path")), key=len)
    distances = np.linalg.norm(marks[:, None] - drawn, axis=2).min(axis=1)
    assert np.median(distances) < 1
    (first,) = (each for each in svg.all("circle"))
    start = facts["steps"]["start"]
    assert [float(first.attributes[each]) for each in ("cx", "cy")] == marks[start].tolist()


@pytest.mark.long
def test_no_answer_is_drawn_below_the_frontier():
    facts = copy_of(two_groups)
    errors = facts["frontier"]["errors_here"]
    # As coarse as can be: its ends alone.
    facts["frontier"]["errors_here"] = [errors[0], errors[-1]]
    tree = tree_of(page_of(facts))
    steps = json.loads(next(tree.all("script")).text)["steps"]
    svg = next(tree.with_id("walk").all("svg"))
    corners = np.vstack([_points(path) for path in svg.all("path")])
    for key in ("plain", "start"):
        mark = np.array(steps[facts["steps"][key]]["marks"][0])
        assert np.abs(corners - mark).max(axis=1).min() < 0.1


@pytest.mark.long
def test_every_answer_is_drawn_inside_what_can_be_reached():
    # Ends of the region alone: answers still lie inside what is drawn of it.
    facts = copy_of(two_groups)
    curve = facts["frontier"]
    curve["region"] = curve["region"][:: max(1, len(curve["region"]) // 3)]
    tree = tree_of(page_of(facts))
    steps = json.loads(next(tree.all("script")).text)["steps"]
    svg = next(tree.with_id("walk").all("svg"))
    fills = [path for path in svg.all("path") if "var(--faint)" in path.attributes.get("style", "")]
    # The other one is its mark in the legend.
    region = max(
        (_points(path) for path in fills if "fill: var(--faint)" in path.attributes["style"]),
        key=len,
    )
    sides = np.roll(region, -1, axis=0) - region
    for step in steps:
        to_mark = np.array(step["marks"][0]) - region
        turns = sides[:, 0] * to_mark[:, 1] - sides[:, 1] * to_mark[:, 0]
        lengths = np.maximum(np.linalg.norm(sides, axis=1), 1e-9)
        # On the same side of every side, to the rounding of places.
        assert min((turns / lengths).max(), (-turns / lengths).max()) < 0.2


def _points(path):
    numbers = re.findall(r"[ML] (-?[\d.]+) (-?[\d.]+)", path.attributes["d"])
    return np.array(numbers, dtype=float).reshape(-1, 2)


@pytest.mark.long
def test_every_group_has_a_mark_in_its_own_panel():
    facts, page = twelve_groups()
    steps = json.loads(next(tree_of(page).all("script")).text)["steps"]
    marks = np.array([step["marks"] for step in steps])
    assert marks.shape == (len(facts["steps"]["points"]), 12, 2)
    losses = np.array([point["losses_here"] for point in facts["steps"]["points"]])
    for g in range(12):
        slope, offset = np.polyfit(losses[:, g], marks[:, g, 1], 1)
        assert slope < 0
        assert slope * losses[:, g] + offset == pytest.approx(marks[:, g, 1], abs=0.1)
    assert len({tuple(place) for place in marks[0]}) == 12


@pytest.mark.long
def test_without_intervals_none_is_shown():
    facts = copy_of(two_groups)
    facts["data"]["has_intervals"] = False
    for model in facts["models"]:
        model |= {"disparity_here_low": None, "disparity_here_high": None}
        for group in model["groups"]:
            group |= {"error_here_low": None, "error_here_high": None, "expected_loss": None}
    facts["verdict"] = None
    facts["models"][0]["why_no_estimates"] = "there are moments alone"
    page = page_of(facts)
    assert "interval" not in tree_of(page).with_id("pca").text
    assert "chance" not in page.split("<main>")[1].split('id="findings"')[0]


@pytest.mark.long
def test_dimensions_without_a_fair_answer_are_left_out_of_the_curve():
    facts = copy_of(two_groups)
    fair = facts["by_dimension"]["fair"]
    for name in ("errors_here", "losses_here", "status"):
        fair[name][0] = None
    label = next(
        svg.attributes["aria-label"]
        for svg in tree_of(page_of(facts)).all("svg")
        if "at d = 1" in svg.attributes["aria-label"]
    )
    assert "and none at d = 1;" in label


@pytest.mark.long
def test_what_is_not_proven_is_not_called_proven():
    facts = copy_of(two_groups)
    proof = facts["models"][1]["certificate"]
    proof |= {"status": "open gap", "gap": 0.25}
    assert said("proof", facts).startswith("Not proven")
    assert "0.25" in said("proof", facts)
    assert "Proven" not in tree_of(page_of(facts)).with_id("summary").text
    proof |= {"lower_bound": None, "gap": None}
    assert "no bound" in said("proof", facts)
    assert "Not proven" in tree_of(page_of(facts)).with_id("summary").text


@pytest.mark.long
def test_names_of_ten_thousand_letters_leave_the_page_small_and_the_facts_whole():
    X, labels = made_rows(2, 4)
    names = {"group 00": "a" * 10_000, "group 01": "b" * 10_000}
    facts = facts_by(X, [names[label] for label in labels], 2)
    assert [each["group"] for each in facts["data"]["groups"]] == sorted(names.values())
    page = page_of(facts)
    assert len(page) < 400_000
    assert max(map(len, re.findall("a+|b+", tree_of(page).text))) <= 100


@pytest.mark.long
def test_of_many_groups_those_that_lose_most_are_drawn_and_slow_criteria_wait_to_be_asked_for():
    X, labels = made_rows(18, 4, n=8)
    facts = facts_by(X, labels, 2)
    slow = {"equal_error", "error_gap", "robust_error_gap"}
    assert {each["name"] for each in facts["unavailable"]} == {"disparity", *slow}
    page = page_of(facts)
    assert len(page) < 400_000
    captions = [each.text for each in tree_of(page).all("figcaption")]
    assert all("the 12 of 18 groups that lose most" in each for each in captions), captions
    # Their tables hold every group, in a box that scrolls.
    boxes = [
        each
        for each in tree_of(page).all("div")
        if "long" in each.attributes.get("class", "").split()
    ]
    assert len(boxes) >= 3
    assert all(f"group {g:02d}" in box.text for box in boxes for g in range(18))
    chosen = facts_by(X, labels, 2, criteria=["error_gap"])
    assert [each["name"] for each in chosen["models"]] == ["PCA", "minimax_loss", "error_gap"]


def test_a_page_of_so_few_rows_that_nothing_can_be_expected():
    rng = np.random.default_rng(0)
    facts = facts_by(rng.normal(size=(6, 4)), [*"aaabbb"], 2)
    page = tree_of(page_of(facts))
    assert facts["verdict"]["kind"] == "cannot tell"
    assert facts["verdict"]["sentence"] in " ".join(page.with_id("summary").text.split())


def test_a_page_of_groups_that_are_alike():
    X, _ = made_rows(2, 4)
    facts = facts_by(np.vstack([X, X]), np.repeat(["a", "b"], len(X)), 2, criteria=[])
    text = tree_of(page_of(facts)).text
    assert "of equal size." in text
    assert "reconstructs every group with an error of" in text
    facts["models"] = facts["models"][:1]
    facts["models"][0]["is_main"] = True
    assert said("criteria", facts) == "No fair criterion was requested."
