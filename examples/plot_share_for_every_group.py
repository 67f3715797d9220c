"""
A requested share of variance is kept for every group
=====================================================

PCA's usual rule, to keep 90 % of the variance, counts everyone together and can leave a group
below. With a share as `n_components`, the smallest dimension is found that keeps it for each group.
"""

import matplotlib.pyplot as plt

import fairspan as fs
from reproduction.data import load

people = load("default_credit", group="education_sex6")
fair = fs.FairPCA(n_components=0.9, scale=True)
fair.fit(people.X, sensitive_features=people.sensitive_features)
fs.displays.VarianceKeptDisplay.from_estimator(fair)
plt.show()

# %%
# One dimension less would not do for every group.

d = fair.n_components_
less = fs.FairPCA(d - 1, scale=True).fit_moments(fair.moments_)
for name, fit in ((f"{d} dimensions", fair), (f"{d - 1} dimensions", less)):
    kept = fit.group_explained_variance_ratio_.sum(axis=1)
    print(f"{name}: from {kept.min():.1%} to {kept.max():.1%}")
assert fair.group_explained_variance_ratio_.sum(axis=1).min() >= 0.9
assert less.group_explained_variance_ratio_.sum(axis=1).min() < 0.9
