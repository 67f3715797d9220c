"""Certificates of fits as commands print them."""

from dataclasses import replace

import numpy as np

import fairspan as fs
from certificate_claims import replace_claims
from fairspan.cli import fitting
from fairspan.cli.printed_results import certificate_text
from fairspan.estimator.fit import fit_moments, fit_rows
from fairspan.estimator.fit_settings import FitSettings


def join_lines(words):
    return " ".join(words.split())


def test_a_bound_that_is_not_known_is_not_called_infinite(run, data, tmp_path, monkeypatch):
    def solve_without_bound(*arguments, **settings):
        fit = fit_rows(*arguments, **settings)
        unknown = {"lower_bound": -np.inf, "status": fs.Status.OPEN_GAP, "theorem_3_2_holds": False}
        certificate = replace_claims(fit.certificate, **unknown)
        return replace(fit, subspace=replace(fit.subspace, certificate=certificate))

    monkeypatch.setattr(fitting, "fit_rows", solve_without_bound)
    command = ("fit", data, "--group", "age", "-d", 2, "--folds", "none", "--force")
    command += ("-o", tmp_path / "m")
    words = run(*command).out
    certificate = join_lines(words[words.index("Certificate") :])
    assert all(part in certificate for part in ("no bound is known", "if there is a bound"))
    assert "Theorem 3.2" in certificate
    assert "inf" not in certificate.replace("minimax_loss", "")
    facts = run(*command, "--json").facts["certificate"]
    assert (facts["lower_bound"], facts["gap"]) == (None, None)


def test_errors_that_were_to_be_equal_and_are_not_are_reported(table, features):
    moments = fs.GroupMoments.from_rows(table[features], table["age"])
    fit = fit_moments(moments, FitSettings.parse(2, "equal_error")).certificate
    assert "differ by" not in join_lines(certificate_text(fit))
    # Others may be below: those of ordinary PCA, for one.
    assert "2 dimensions with equal errors" in join_lines(certificate_text(fit))
    violating_fit = replace_claims(fit, constraint_violation=0.25)
    words = certificate_text(violating_fit)
    assert "differ by 2.5e-01" in join_lines(words)
    assert max(map(len, words.splitlines())) <= 80
