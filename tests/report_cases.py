"""Synthetic rows of several groups, their report, and parts of its facts."""

from dataclasses import replace

import numpy as np

from certificate_claims import replace_claims
from fairspan.moments.group_moments import compute_group_moments
from fairspan.report.build import build_report
from fairspan.report.provenance import Provenance
from fairspan.report.report_settings import ReportSettings
from fairspan.rows.opening import open_group_rows

ORIGIN = Provenance("rows", "a report", None, "a command")


def generate_rows(k, p, n=40, seed=0):
    """Return rows of k groups that vary in different directions, and their labels."""
    rng = np.random.default_rng(seed)
    blocks = [rng.normal(size=(n + 5 * g, p)) @ rng.normal(size=(p, p)) for g in range(k)]
    labels = np.repeat([f"group {g:02}" for g in range(k)], [len(block) for block in blocks])
    return np.vstack(blocks) + rng.normal(size=p), labels


def make_report(
    X,
    labels,
    n_components=None,
    *,
    criterion="minimax_loss",
    compare=None,
    center="global",
    scale=False,
    weights=None,
    origin=ORIGIN,
):
    rows = open_group_rows(X, labels, weights)
    asked = ReportSettings.validated(criterion, compare, n_components, center, scale)
    return build_report(compute_group_moments(rows), rows, asked, origin)


def report_facts(*rows, **settings):
    return make_report(*rows, **settings).to_dict()


def model_facts(facts, name):
    return next(model for model in facts["models"] if model["name"] == name)


def group_column(model, key):
    return np.array([group[key] for group in model["groups"]], dtype=float)


def group_names(facts):
    return [group["group"] for group in facts["models"][0]["groups"]]


def certificate_facts(facts, name=None):
    name = facts["main_model"] if name is None else name
    return next(each for each in facts["certificates"] if each["model"] == name)


def dimension_curve(facts, model, key):
    """Return a figure as an array (n_dimensions, n_groups)."""
    records = [each for each in facts["by_dimension"] if each["model"] == model]
    return np.array([each[key] for each in records]).reshape(-1, len(group_names(facts)))


def report_dimensions(facts):
    return list(dict.fromkeys(each["n_components"] for each in facts["by_dimension"]))


def replace_figures(report, place, groups=None, **figures):
    """Return the report with other figures of one model, and of each of its groups."""
    models = list(report.audit.models)
    if groups is not None:
        figures["groups"] = tuple(
            replace(group, **more) for group, more in zip(models[place].groups, groups, strict=True)
        )
    models[place] = replace(models[place], **figures)
    return replace(report, audit=replace(report.audit, models=tuple(models)))


def replace_certificate(report, place, **figures):
    """Return the report with other claims in the certificate of one fit."""
    fits = list(report.fits)
    proof = replace_claims(fits[place].certificate, **figures)
    subspace = replace(fits[place].subspace, certificate=proof)
    fits[place] = replace(fits[place], subspace=subspace)
    return replace(report, fits=tuple(fits))
