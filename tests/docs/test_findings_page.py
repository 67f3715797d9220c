"""docs/findings.md: a section for each code, with the severity and the message that audits give."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import NMF, PCA

import fairspan
from fairspan import FairPCA, GroupMoments, MultiplicativeWeights, audit
from fairspan.auditing.findings.finding_catalog import ENTRIES

PAGE = (Path(__file__).parents[2] / "docs" / "findings.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (FS\d+)\n(.*?)(?=^##|\Z)", PAGE, re.S | re.M))
SOURCE = "".join(
    path.read_text(encoding="utf-8")
    for path in (Path(fairspan.__file__).parent / "auditing").rglob("*.py")
)


def rows_of(n, widths, seed=0):
    return np.random.default_rng(seed).standard_normal((n, len(widths))) * widths


WIDE = rows_of(200, [3, 1, 1, 1])
NARROW = rows_of(100, [0.3, 1, 0.3, 0.3], seed=1)
X = np.vstack([WIDE, NARROW])
GROUPS = np.repeat(["wide", "narrow"], [200, 100])
SIMILAR_ROWS = rows_of(300, [3, 1, 1, 1], seed=2)
THREE = np.arange(300) % 3


def fit_model(n_components=1, rows=X, groups=GROUPS, **settings):
    return FairPCA(n_components, **settings).fit(rows, sensitive_features=groups)


def few_rows(n, name, d):
    rows = np.vstack([WIDE, NARROW[:n]])
    groups = np.repeat(["wide", name], [200, n])
    return audit(PCA(d).fit(rows), rows, groups)


def no_variance():
    rows = np.vstack([NARROW - NARROW.mean(axis=0), np.zeros((100, 4))])
    groups = np.repeat(["some", "flat"], 100)
    return audit(fit_model(1, rows, groups, center="none"), rows, groups)


def among_the_features():
    rows = pd.DataFrame(SIMILAR_ROWS, columns=["age", "income", "debt", "sex_male"])
    rows["sex_male"] = THREE == 0
    groups = np.where(THREE == 0, "male", "female")
    return audit(PCA(1).fit(rows.to_numpy(float)), rows.astype(float), groups)


def row_number():
    rows = pd.DataFrame(SIMILAR_ROWS, columns=["id", "a", "b", "c"]).assign(id=np.arange(300.0))
    return audit(PCA(1).fit(rows.to_numpy()), rows, GROUPS)


def few_rows_of_equal_variances():
    rows = rows_of(460, [1.0] * 20, seed=3)
    return audit(PCA(4).fit(rows), rows, np.repeat(["many", "few"], [400, 60]))


def fit_to_one_group():
    rows = rows_of(460, [1.0] * 20, seed=3)
    components = PCA(4).fit(rows[400:]).components_
    return audit(components, rows, np.repeat(["many", "few"], [400, 60]))


def one_outlier():
    rows = np.vstack([SIMILAR_ROWS, rows_of(60, [1, 1, 1, 1], seed=4)])
    rows[-1] = [0, 500, 0, 0]
    model = np.eye(4)[:1]
    return audit(model, rows, np.repeat(["many", "few"], [300, 60]))


def blocks_without_refits():
    parts = [GroupMoments.from_rows(X[start::3], GROUPS[start::3]) for start in range(3)]
    model = FairPCA(1).fit_moments(sum(parts[1:], start=parts[0]))
    return audit(model, moments=parts)


def income_in_cents():
    rows = pd.DataFrame(
        SIMILAR_ROWS * [1e5, 1, 1, 1], columns=["income", "age", "rooms", "children"]
    )
    return audit(PCA(2).fit(rows.to_numpy()), rows, GROUPS)


def rare_category():
    rows = pd.DataFrame(SIMILAR_ROWS, columns=["a", "b", "c", "from=Atlantis"])
    rows["b"] = rows["a"] + 0.1 * rows["b"]
    rows["from=Atlantis"] = np.arange(300.0) == 7
    return audit(fit_model(3, rows, GROUPS, scale=True), rows, GROUPS)


def impute_income_means(share):
    rows = pd.DataFrame(SIMILAR_ROWS, columns=["age", "income", "rooms", "children"])
    is_missing = (GROUPS == "narrow") & (np.random.default_rng(5).random(300) < share)
    rows["income"] = rows["income"].mask(is_missing)
    return audit(PCA(2).fit(SIMILAR_ROWS), rows.fillna(rows.mean()), GROUPS)


def persons():
    rng = np.random.default_rng(6)
    person = np.repeat(np.arange(40), 10)
    rows = 0.4 * rng.standard_normal((400, 4)) + rng.standard_normal((40, 4))[person]
    table = pd.DataFrame(rows, columns=["age", "income", "rooms", "children"])
    model = fit_model(2, table, np.repeat(["a", "b"], 200)).subspace_
    return audit(model, table.assign(person=person), np.repeat(["a", "b"], 200))


def series():
    rng = np.random.default_rng(7)
    steps = rng.standard_normal((300, 4))
    for i in range(1, 300):
        steps[i] += 0.7 * steps[i - 1]
    return audit(PCA(2).fit(steps), steps, GROUPS)


def tied_directions():
    groups = np.repeat(["a", "b"], [2_666, 1_334])
    rows = np.random.default_rng(3).normal(size=(4_000, 5))
    rows *= np.where(groups[:, None] == "a", [2, 2, 2, 2, 0.5], [0.5, 2, 1, 1, 0.5])
    return audit(fit_model(2, rows, groups), rows, groups)


def changed_rows():
    new_rows = np.vstack([rows_of(200, [3, 1, 1, 3], seed=3), rows_of(80, [0.3, 1, 0.3, 0.9], 4)])
    return audit(fit_model(), new_rows, GROUPS[:280])


def missing_cells():
    holes = np.random.default_rng(0).random(X.shape) < 0.2
    holes[:, 0] = False
    holes[:200] = False
    return audit(PCA(1).fit(X), np.where(holes, np.nan, X), GROUPS, on_missing="em")


def named_persons():
    person = np.repeat(np.arange(40), 10)
    rows = np.random.default_rng(0).normal(size=(400, 6))
    groups = np.array(["a", "b"])[person % 2]
    return audit(PCA(2).fit(rows), rows, groups, clusters=person)


def shuffled_persons():
    rng = np.random.default_rng(0)
    person = rng.permutation(np.repeat(np.arange(40), 10))
    rows = rng.normal(size=(40, 20))[person] + 0.5 * rng.normal(size=(400, 20))
    return audit(PCA(2).fit(rows), rows, np.array(["a", "b"])[person % 2])


STOPPED = MultiplicativeWeights(max_iter=2)


def missing_codes():
    rows = pd.DataFrame(SIMILAR_ROWS, columns=["age", "income", "visits", "score"])
    rows.loc[::20, "income"] = -99
    return audit(PCA(1).fit(rows), rows, THREE)


CASES = {
    "FS101": lambda: few_rows(3, "few", 3),
    "FS102": lambda: few_rows(1, "one", 1),
    "FS103": lambda: audit(PCA(1).fit(X), X, np.repeat(["large", "small"], [290, 10])),
    "FS104": no_variance,
    "FS105": lambda: audit(PCA(1).fit(X), X, ["everyone"] * 300),
    "FS106": lambda: audit(PCA(1).fit(X), moments=GroupMoments.from_rows(X, GROUPS)),
    "FS107": lambda: audit(fit_model(), WIDE, GROUPS[:200]),
    "FS108": few_rows_of_equal_variances,
    "FS109": one_outlier,
    "FS110": blocks_without_refits,
    "FS111": named_persons,
    "FS201": lambda: audit(PCA(1).fit(SIMILAR_ROWS), SIMILAR_ROWS, GROUPS),
    "FS202": lambda: audit(PCA(1).fit(X), X, GROUPS),
    "FS203": lambda: audit(fit_model(), X, GROUPS),
    "FS204": lambda: audit(fit_model(1, SIMILAR_ROWS, THREE, solver=STOPPED), SIMILAR_ROWS, THREE),
    "FS205": lambda: audit(fit_model(), X, GROUPS),
    "FS206": lambda: audit(PCA(4).fit(X), X, GROUPS),
    "FS207": fit_to_one_group,
    "FS208": tied_directions,
    "FS209": changed_rows,
    "FS210": changed_rows,
    "FS211": lambda: audit(NMF(2, init="nndsvda").fit(abs(X)), abs(X), GROUPS),
    "FS301": lambda: audit(
        {"about all": PCA(1).fit(X), "about each": fit_model(center="group")}, X, GROUPS
    ),
    "FS302": lambda: audit(fit_model(), X, GROUPS),
    "FS303": lambda: audit(fit_model(), X, GROUPS),
    "FS401": among_the_features,
    "FS402": row_number,
    "FS403": income_in_cents,
    "FS404": rare_category,
    "FS405": lambda: audit(
        PCA(1).fit(SIMILAR_ROWS), SIMILAR_ROWS, np.array(["female", " Female", "male"])[THREE]
    ),
    "FS406": lambda: audit(PCA(1).fit(SIMILAR_ROWS), SIMILAR_ROWS, np.arange(300) % 30),
    "FS407": lambda: impute_income_means(0.2),
    "FS408": lambda: impute_income_means(0.5),
    "FS409": persons,
    "FS410": series,
    "FS411": missing_cells,
    "FS412": missing_codes,
    "FS413": lambda: audit(
        PCA(1).fit(SIMILAR_ROWS), SIMILAR_ROWS, np.array(["female", "?", "male"])[THREE]
    ),
    "FS414": shuffled_persons,
}


def test_every_code_has_a_section_and_every_section_a_code():
    assert list(SECTIONS) == sorted(set(re.findall(r'"(FS\d+)"', SOURCE))) == list(CASES)


@pytest.mark.parametrize("code", CASES)
def test_the_example_is_what_an_audit_says(code):
    finding = next(finding for finding in CASES[code]().findings if finding.code == code)
    example = re.search(r"^```text\n(.*?)^```", SECTIONS[code], re.S | re.M)[1]
    assert " ".join(example.split()) == " ".join(str(finding).split())
    assert SECTIONS[code].lstrip().lower().startswith(f"**{finding.severity}.**")
    assert finding.remedy.endswith(".")


def test_the_page_names_the_findings_that_qualify_a_verdict():
    sentence = re.search(
        r"Some findings qualify a verdict \(`qualifies_verdict`\): (.*?)\.", PAGE, re.S
    )[1]
    assert re.findall(r"FS\d+", sentence) == [
        code for code, entry in ENTRIES.items() if entry.caveat
    ]


def test_the_table_of_the_page_is_that_of_the_catalog():
    rows = re.findall(r"^\| \[(FS\d+)\]\(#fs\d+\) \| (.*?) \| (.*?) \| (.*?) \|$", PAGE, re.M)
    entries = [(code, entry.severity, entry.about, entry.title) for code, entry in ENTRIES.items()]
    assert rows == entries


@pytest.mark.parametrize("code", ENTRIES)
def test_a_remedy_stands_once_in_the_catalog(code):
    """No message repeats the words of the remedy in place of its field."""
    entry = ENTRIES[code]
    first_words = " ".join(entry.remedy.split()[:3])
    for message in (entry.message, *entry.other_messages.values()):
        assert first_words not in message
