"""
Two groups never need an extra dimension
========================================

The paper that introduced fair PCA allows two groups one dimension more than requested. None is
needed: with exactly d components a fit reaches the bound of the relaxation, which may use
fractions of dimensions. Here at every d of five data sets; what is left is rounding.
"""

import matplotlib.pyplot as plt
import numpy as np

import fairspan as fs
from reproduction.data import load

sets = [
    load("ecoli"),
    load("pima_diabetes"),
    load("wine_quality"),
    load("parkinsons"),
    load("default_credit"),
]

figure, axes = plt.subplots(layout="constrained")
for rows, marker in zip(sets, "osD^v", strict=True):
    moments = fs.GroupMoments.from_rows(rows.X, rows.sensitive_features)
    dimensions = np.arange(1, moments.n_features)
    fits = [fs.FairPCA(int(d), scale=True).fit_moments(moments) for d in dimensions]
    assert [len(fit.components_) for fit in fits] == list(dimensions)
    # Unresolved if the loss is nearly zero: double precision resolves no share of it.
    assert {fit.solution_.status for fit in fits} <= {"optimal", "unresolved"}
    # The total variance of scaled features is their number.
    gaps = np.array([fit.solution_.gap for fit in fits]) / moments.n_features
    assert gaps.max() < 1e-9
    axes.semilogy(dimensions, np.maximum(gaps, 1e-17), marker, markersize=5, label=rows.name)
axes.axhline(1e-9, color="black", linestyle="--", label="a billionth of the variance")
axes.set_xticks(range(1, 22, 4))
axes.set(xlabel="dimensions d", ylabel="gap, as a share of the variance", ylim=(5e-18, 1e-8))
figure.legend(loc="outside right upper")
plt.show()
