"""Cases of the golden figures: fits, audits, reports and printed results as plain values.

`tests/test_golden_figures.py` compares them with `tests/golden_figures.json`.
"""

import contextlib
import io
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import scipy.sparse

import fairspan as fs
import real_data
from bank import BANK
from fairspan.errors import FairspanError
from problems import rows_with_moments

CRITERIA: dict[str, Any] = {
    "total_error": "total_error",
    "minimax_loss": "minimax_loss",
    "minimax_error": "minimax_error",
    "relative_loss": fs.MinimaxLoss(relative=True),
    "relative_error": fs.MinimaxError(relative=True),
    "least_variance": "least_variance",
    "equal_error": "equal_error",
    "disparity": "disparity",
    "error_gap": "error_gap",
    "robust_error_gap": "robust_error_gap",
    "nash_welfare": "nash_welfare",
}
NESTED = ("total_error", "minimax_loss", "minimax_error", "least_variance")
RESTRICTIONS: dict[str, Any] = {
    "free": None,
    "mean_parity": fs.MeanParity(),
    "loose_mean_parity": fs.MeanParity(0.5),
    "oblique": fs.MeanParity(oblique=True),
    "covariance_parity": fs.CovarianceParity(n_directions=1),
}
CENTERS = ("global", "group", "none")
D = 3

# Small enough that an audit with ten folds takes a second or two.
AUDITED = (
    "compas:group__sex",
    "compas_molfat:group__race",
    "ecoli:group__cytoplasm",
    "energy:group__orientation_lt4",
    "german_credit:group__age_lt40",
    "pima_diabetes:group__pregnant_gt1",
    "steel_plates:group__fault_other",
    "wine_quality:group__colour",
)
# Texts that are values; sentences may be written anew.
_VALUES = ("kind", "state", "status", "code", "severity", "name", "group", "criterion", "solver")


def fit_figures(fair: fs.FairPCA, fit: Callable[[fs.FairPCA], Any]) -> dict[str, Any]:
    """The certificate of a fit and a figure of its projector, or the error that refuses it."""
    try:
        fit(fair)
    except FairspanError as error:
        return {"refused": type(error).__name__}
    solution, subspace = fair.solution_, fair.subspace_
    p = subspace.encoder.shape[1]
    # Directions that no data are made of.
    left, right = (wave(np.arange(1, p + 1)) for wave in (np.cos, np.sin))
    return {
        "objective": solution.objective,
        "lower_bound": solution.lower_bound,
        "resolution": solution.resolution,
        "status": str(solution.status),
        "projector": float((left @ subspace.decoder) @ (subspace.encoder @ right)),
    }


def bank_names() -> list[str]:
    return [
        f"{entry.name}, {restriction}, {center}"
        for entry in BANK
        for restriction in RESTRICTIONS
        for center in CENTERS
    ]


def bank_figures(name: str, rotation: bool = False) -> dict[str, Any]:
    """All criteria on a problem of the bank, of groups that lie apart where means count."""
    case, restriction, center = name.rsplit(", ", 2)
    entry = next(each for each in BANK if each.name == case)
    X, labels = rows_with_moments(entry.matrices)
    if center != "none" or restriction != "free":
        codes = np.unique(labels, return_inverse=True)[1]
        X = X + 0.5 * np.cos(np.outer(codes + 1, np.arange(1, X.shape[1] + 1)))
    if rotation:
        X = X @ _rotation(X.shape[1])
    moments = fs.GroupMoments.from_rows(X, labels)
    found = {}
    for key, criterion in CRITERIA.items():
        for nested in (False, True) if key in NESTED else (False,):
            fair = fs.FairPCA(
                entry.n_components,
                criterion=criterion,
                restriction=RESTRICTIONS[restriction],
                center=center,
                nested=nested,
            )
            found[key + " nested" * nested] = fit_figures(fair, lambda f: f.fit_moments(moments))
    return found


def _rotation(p: int) -> Any:
    return np.linalg.qr(np.random.default_rng(p).standard_normal((p, p)))[0]


def real_figures(name: str, tol: float = 1e-9) -> dict[str, Any]:
    """Moments of a data set, and fits of all criteria, with and without restrictions."""
    rows = real_data.load(name)
    moments = fs.GroupMoments.from_rows(rows.X, rows.groups)
    left = np.cos(np.arange(1, moments.n_features + 1))
    found: dict[str, Any] = {
        "moments": {
            "weights": moments.weights.tolist(),
            "means": (moments.means @ left).tolist(),
            "scatters": np.einsum("i,gij,j->g", left, moments.scatters, left).tolist(),
        }
    }

    def add(key: str, **settings: Any) -> None:
        fair = fs.FairPCA(D, scale=True, tol=tol, **settings)
        found[key] = fit_figures(fair, lambda f: f.fit_moments(moments))

    for key, criterion in CRITERIA.items():
        add(key, criterion=criterion)
    for key, restriction in RESTRICTIONS.items():
        if restriction is not None:
            add(f"minimax_loss, {key}", restriction=restriction)
    add("minimax_loss, nested", nested=True)
    return found


@cache
def wide_rows(kind: str) -> tuple[Any, Any]:
    """Fewer rows than features, or many columns that are mostly zero."""
    rng = np.random.default_rng(11)
    if kind == "wide":
        labels = np.arange(48) % 3
        shape = rng.uniform(0.3, 3.0, (3, 620))
        return rng.standard_normal((48, 620)) * shape[labels] + 0.3 * labels[:, None], labels
    sparse = scipy.sparse.random_array((900, 700), density=0.02, rng=rng, format="csr")
    labels = np.arange(900) % 2
    scales = scipy.sparse.diags_array(np.where(labels == 0, 1.0, 1.7))
    return (scales @ sparse).tocsr(), labels


WIDE = ("minimax_loss", "error_gap", "nash_welfare", "minimax_loss, mean_parity", "total_error")


def wide_figures(kind: str, tol: float = 1e-9) -> dict[str, Any]:
    X, labels = wide_rows(kind)
    found = {}
    for key in WIDE:
        criterion, _, restriction = key.partition(", ")
        fair = fs.FairPCA(4, criterion=criterion, restriction=restriction or None, tol=tol)
        found[key] = fit_figures(fair, lambda f: f.fit(X, sensitive_features=labels))
    return found


def audit_figures(name: str) -> dict[str, Any]:
    """Columns of the frame of an audit with folds: the fair subspace beside plain PCA."""
    rows = real_data.load(name)
    fair = fs.FairPCA(2, scale=True).fit(rows.X, sensitive_features=rows.groups)
    frame = fs.audit(fair, rows.X, rows.groups).frame()
    return {column: frame[column].tolist() for column in frame}


def _generate_rows() -> tuple[Any, list[str]]:
    rng = np.random.default_rng(3)
    many = rng.normal(size=(240, 6)) * [5, 3, 2, 1, 1, 0.5]
    few = rng.normal(size=(80, 6)) * [1, 1, 2, 4, 1, 0.5]
    return np.vstack([many, few]), ["towns"] * 240 + ["hills"] * 80


def report_figures(name: str) -> Any:
    """The facts of a report without their sentences."""
    if name == "made":
        (X, groups), settings = _generate_rows(), {"n_components": 2}
    else:
        rows = real_data.load(name)
        X, groups, settings = rows.X, rows.groups, {"n_components": 3, "scale": True}
    with TemporaryDirectory() as folder:
        facts = fs.write_report(Path(folder) / "page.html", X, groups, name="rows", **settings)
    return drop_sentences(json.loads(json.dumps(facts)))


def print_results() -> Iterator[tuple[str, Any]]:
    """What commands print with --json of a small table, without sentences and paths."""
    from cli.conftest import made_table
    from fairspan import cli

    with TemporaryDirectory() as name:
        folder = Path(name)
        data, plain, model, other = (
            str(folder / each) for each in ("t.csv", "plain.csv", "model", "other")
        )
        made_table().to_csv(data, index=False)
        made_table().drop(columns="sex").to_csv(plain, index=False)
        moments = [str(folder / f"{i}.moments") for i in range(2)]
        age = (plain, "--group", "age")
        both = (data, "--group", "age", "--group", "sex")
        again = ("-d", "2", "-o", other, "--force")
        commands = {
            "fit": ("fit", *age, "-d", "2", "-o", model),
            "fit nested": ("fit", *age, "--nested", *again),
            "fit gap": ("fit", *age, "--criterion", "error_gap", "--param", "penalty=2", *again),
            "fit parity": ("fit", *age, "--restriction", "mean_parity", *again),
            "fit four groups": ("fit", *both, *again),
            "audit": ("audit", *age),
            "audit without folds": ("audit", *age, "-d", "2", "--folds", "none"),
            "audit model": ("audit", *age, "--model", model),
            "audit four groups": ("audit", *both, "-d", "2", "--center", "group"),
            "audit by dimension": ("audit", *age, "--by-dimension"),
            "transform": ("transform", model, plain, "-o", str(folder / "out.csv")),
            "verify": ("verify", model, *age),
            "moments": ("moments", *age, "-o", moments[0]),
            "audit moments": ("audit", moments[0], "-d", "2"),
            "merge": ("merge", moments[0], moments[0], "-o", moments[1]),
            "report": ("report", *age, "-d", "2", "--model", model, "-o", str(folder / "r.html")),
            "demo": ("demo", "-o", str(folder / "demo.html")),
        }
        for key, words in commands.items():
            out = io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
                status = cli.run([*words, "--json"])
            assert status == 0, (key, out.getvalue())
            yield key, drop_sentences(json.loads(out.getvalue()))


def drop_sentences(value: Any, key: str = "") -> Any:
    """Numbers, truth values and texts that are values, in the places where they stand."""
    if isinstance(value, dict):
        kept = {each: drop_sentences(inner, each) for each, inner in value.items()}
        return {each: inner for each, inner in kept.items() if inner not in ({}, [], None)}
    if isinstance(value, list):
        kept_items = [drop_sentences(each, key) for each in value]
        return kept_items if any(each is not None for each in kept_items) else []
    if isinstance(value, str) and key not in _VALUES:
        return None
    return value
