"""
Two groups never need an extra dimension
========================================

The paper that introduced fair PCA allows one dimension more than requested for two groups. None is
needed: with exactly d components a fit attains the bound of the relaxation, which may use fractions
of dimensions. This page shows the gap for every d on five data sets; what remains is rounding.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import fairspan as fs

numbers, digits = fs.datasets.load_adult("race"), load_digits()
is_black = np.where(numbers.sensitive_features == "Black", "Black", "others")
varies = digits.data.std(axis=0) > 0
sets = {
    "adult by sex": fs.datasets.load_adult_by_sex(),
    "adult, numbers, by race": replace(numbers, X=numbers.X[:, :5], sensitive_features=is_black),
    "diabetes by sex": fs.datasets.load_diabetes_by_sex(),
    "tumors by diagnosis": fs.datasets.load_breast_cancer_by_diagnosis(),
    "digits, even and odd": replace(
        numbers, X=digits.data[:, varies], sensitive_features=digits.target % 2
    ),
}

figure, axes = plt.subplots(layout="constrained")
for (name, rows), marker in zip(sets.items(), "osD^v", strict=True):
    moments = fs.GroupMoments.from_rows(rows.X, rows.sensitive_features)
    dimensions = np.arange(1, moments.n_features)
    fits = [fs.FairPCA(int(d), scale=True).fit_moments(moments) for d in dimensions]
    assert [len(fit.components_) for fit in fits] == list(dimensions)
    # A fit is unresolved if the loss is nearly zero, where rounding exceeds the tolerance.
    assert {fit.solution_.status for fit in fits} <= {"optimal", "unresolved"}
    # The total variance of scaled features is their number.
    gaps = np.array([fit.solution_.gap for fit in fits]) / moments.n_features
    assert gaps.max() < 1e-9
    axes.semilogy(dimensions, np.maximum(gaps, 1e-17), marker, markersize=5, label=name)
axes.axhline(1e-9, color="black", linestyle="--", label="a billionth of the variance")
axes.set(xlabel="dimensions d", ylabel="gap, as a share of the variance", ylim=(5e-18, 1e-8))
figure.legend(loc="outside right upper")
plt.show()
