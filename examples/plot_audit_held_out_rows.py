"""
A gap that is closed on the rows of the fit opens on new rows
=============================================================

A fit can overfit fairness as it can overfit anything else. Each of ten fits on 300 people of a
census closes the gap between women and men; on the other 32,261 people the gap is nearly as wide as
that of PCA. Audit with rows that the fit has not seen.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import fairspan as fs

people = fs.datasets.load_adult_by_sex()
# Without indicators so rare that they may be constant among 300 people.
X = people.X[:, people.X.mean(axis=0) > 0.03]
criteria = {"PCA": fs.TotalError(), "error gap": fs.ErrorGap(penalty=2.0)}
gaps = {(name, rows): [] for name in criteria for rows in ("fitted", "new")}
for seed in range(10):
    few, others, g_few, g_others = train_test_split(
        X, people.sensitive_features, train_size=300, random_state=seed
    )
    for name, criterion in criteria.items():
        fit = fs.FairPCA(5, criterion=criterion, scale=True).fit(few, sensitive_features=g_few)
        gaps[name, "fitted"].append(abs(fit.disparity_))
        gaps[name, "new"].append(abs(fs.metrics.disparity(fit, others, g_others)))

figure, axes = plt.subplots(layout="constrained")
for place, ((_, rows), values) in enumerate(gaps.items()):
    axes.plot(np.full(10, place), values, "o", color="#d55e00" if rows == "new" else "#0072b2")
    axes.hlines(np.median(values), place - 0.2, place + 0.2, color="black")
axes.set_xticks(range(4), [f"{name},\n{rows} rows" for name, rows in gaps])
axes.set_ylabel("gap between the errors of two groups")
plt.show()

# %%
# Medians over ten draws:

medians = {case: np.median(values) for case, values in gaps.items()}
for case, value in medians.items():
    print(*case, f"{value:.3f}")
assert max(gaps["error gap", "fitted"]) < 1e-6
assert medians["error gap", "new"] > 1
