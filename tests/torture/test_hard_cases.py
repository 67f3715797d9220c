"""Hard cases, pairs of settings that may refute each other, and expected losses."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

import fairspan as fs
from fairspan.errors import FairspanError
from real_data import load
from torture.cases import Case
from torture.hard_cases import HARD_CASES
from torture.judges import Wrong
from torture.pairs import CHANGES, draw_pair, find_disagreement
from torture.tally import Tally, case_generator, check_case

# Many a fit takes a tenth of a second or more: fewer examples of these by default.
SLOW = (
    "a_hundred_groups",
    "columns_divided_by_their_deviation",
    "columns_of_all_sizes",
    "far_from_zero_about_the_origin",
    "groups_of_very_different_size",
    "huge_column_of_five_groups",
    "huge_column_of_three_groups",
    "nearly_identical_groups_with_equal_errors",
    "nothing_special",
    "rows_of_sixteen_bits",
    "soft_projections",
)


@pytest.mark.parametrize("name", HARD_CASES)
def test_right_or_refused(name, how_many, record_property):
    tally = Tally()
    for number in range(how_many(4 if name in SLOW else 20, 500)):
        drawn: list[Case] = []
        with tally.example(number, lambda: drawn[0] if drawn else None):  # noqa: B023
            drawn.append(HARD_CASES[name](case_generator(name, number)))
            check_case(drawn[0], tally)
    tally.conclude(record_property, name)


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("change", CHANGES)
def test_no_two_answers_refute_each_other(change, part, how_many, record_property):
    tally = Tally()
    for number in range(how_many(5, 420)):
        drawn: list[Case] = []
        with tally.example(number, lambda: drawn[0] if drawn else None):  # noqa: B023
            case, twin = draw_pair(case_generator(f"{change} {part}", number), change)
            drawn.append(case)
            first, second = case.fit_or_refusal(), twin.case.fit_or_refusal()
            refused = [isinstance(each, FairspanError) for each in (first, second)]
            if any(refused):
                tally.outcomes["both refused" if all(refused) else "one refused"] += 1
                continue
            amount = find_disagreement(first, second, case, twin)
            if amount > 0:
                raise Wrong(
                    f"answers refute each other: by {amount:.2e} beyond rounding; "
                    f"{first.solution_!r}, resolution {first.solution_.resolution:.1e}, and, "
                    f"{twin.factor} times as large, {second.solution_!r}, "
                    f"resolution {second.solution_.resolution:.1e}"
                )
            both = {str(each.solution_.status) for each in (first, second)}
            tally.outcomes["both " + both.pop() if len(both) == 1 else "of two statuses"] += 1
    tally.conclude(record_property, f"pairs: {change}, part {part + 1}")


P, D = 50, 5


def figures(model, X, groups, label, **settings):
    result = fs.audit({"m": model}, X, groups, **settings)
    audited = next(each for each in result.models if each.name == "m")
    return next(each for each in audited.groups if each.group == label)


def spectrum(kind):
    """Standard deviations, and whether there is a gap after the fifth."""
    falling = 1 / np.sqrt(np.arange(1, P + 1))
    tied = np.r_[np.full(D - 1, 1.0), np.full(4, 0.5), np.full(P - D - 3, 0.2)]
    return {"falling": (falling, True), "tied": (tied, False)}[kind]


@pytest.mark.parametrize("kind", ["falling", "tied"])
@pytest.mark.parametrize("turned", [False, True], ids=["same", "turned"])
@pytest.mark.parametrize("variant", ["plain", "weights", "clusters", "three groups"])
@pytest.mark.parametrize("n", [60, 200])
def test_bias_and_coverage(kind, turned, variant, n, how_many):
    """A model of others: bias of the corrected loss, coverage, and the sign of the cross-fitted."""
    rng = np.random.default_rng([n, turned, len(kind), len(variant)])
    sizes, has_gap = spectrum(kind)
    turn = np.linalg.qr(rng.normal(size=(P, P)))[0] if turned else np.eye(P)
    model = np.eye(P)[np.argsort(-sizes, kind="stable")[:D]]
    second = turn.T @ np.diag(sizes**2) @ turn
    kept = np.trace(model @ second @ model.T)
    truth = np.sort(sizes**2)[::-1][:D].sum() - kept
    on_rows, corrected, crossed, covered = [], [], [], []
    for _ in range(how_many(10, 120)):
        few = rng.normal(size=(n, P)) * sizes @ turn
        many = rng.normal(size=(1_000, P)) * sizes
        settings = {}
        if variant == "clusters":
            # Five rows of one person, nearly alike.
            people = rng.normal(size=(n, P)) * sizes @ turn
            few = np.repeat(people, 5, axis=0) + 0.01 * rng.normal(size=(5 * n, P))
            settings["clusters"] = np.r_[-np.arange(1, 1_001), np.repeat(np.arange(n), 5)]
        labels = np.r_[np.repeat("many", 1_000), np.repeat("few", len(few))]
        if variant == "three groups":
            labels[:300] = "others"
        X = np.vstack([many, few])
        # Both groups lie about zero, which the mean of all rows is not exactly.
        subspace = fs.FairSubspace(model, np.zeros(P), None, "global")
        if variant == "weights":
            settings["sample_weight"] = rng.uniform(0.5, 1.5, len(X))
        found = figures(subspace, X, labels, "few", **settings)
        on_rows.append(found.observed_loss - truth)
        corrected.append(found.expected_loss.value - truth)
        crossed.append(found.cross_fitted_loss - truth)
        covered.append(found.expected_loss.low <= truth <= found.expected_loss.high)
    noise = 3 * np.std(corrected) / np.sqrt(len(corrected))
    if has_gap:
        assert abs(np.mean(corrected)) <= 0.2 * abs(np.mean(on_rows)) + noise
    assert np.mean(crossed) <= 3 * np.std(crossed) / np.sqrt(len(crossed))
    assert np.mean(covered) >= how_many(0.7, 0.9)


def standardized(name):
    X = load(name).X
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


@pytest.mark.parametrize(
    ("name", "d", "size"),
    [
        ("default_credit:group__education", 8, 162),
        ("default_credit:group__education", 8, 5_385),
        ("adult_train:group__sex", 20, 300),
        ("adult_train:group__sex", 20, 10_771),
        ("made", 5, 100),
    ],
)
def test_hardly_any_group_with_permuted_labels_is_called_harmed(name, d, size, how_many):
    rng = np.random.default_rng(size)
    if name == "made":
        X = rng.normal(size=(5_000, P)) * spectrum("falling")[0]
    else:
        X = standardized(name)
    pca, harmed, draws = PCA(d).fit(X), 0, how_many(8, 200)
    for _ in range(draws):
        labels = np.full(len(X), "others")
        labels[rng.permutation(len(X))[:size]] = "drawn"
        result = fs.audit({"PCA": pca}, X, labels)
        harmed += any(group.state == "harmed" for group in result.models[0].groups)
    # 5 % and what 200 draws may show beyond it by chance.
    assert harmed <= how_many(2, 19)


def test_a_loss_of_a_tenth_of_the_error_is_found(how_many):
    rng = np.random.default_rng(0)
    sizes = np.r_[np.full(D, 1.0), np.full(P - D, 0.4)]
    found, draws = 0, how_many(10, 100)
    for _ in range(draws):
        few = rng.normal(size=(1_000, P)) * sizes
        # A rotation by an angle whose loss is a tenth of the best error.
        best = (sizes[D:] ** 2).sum()
        angle = np.arcsin(np.sqrt(0.1 * best / (D * (1 - 0.16))))
        turned = few.copy()
        turned[:, :D] = np.cos(angle) * few[:, :D] - np.sin(angle) * few[:, D : 2 * D]
        turned[:, D : 2 * D] = np.sin(angle) * few[:, :D] + np.cos(angle) * few[:, D : 2 * D]
        X = np.vstack([rng.normal(size=(2_000, P)) * sizes, turned])
        labels = np.r_[np.repeat("many", 2_000), np.repeat("few", 1_000)]
        subspace = fs.FairSubspace(np.eye(P)[:D], np.zeros(P), None, "global")
        found += figures(subspace, X, labels, "few").state == "harmed"
    assert found >= 0.9 * draws
