"""
A change in one group is noticed in the month in which it happens
=================================================================

A model is fitted on 10,000 people of a census and watched on nine chunks of 2,500 others. In the
seventh, the columns of women are shuffled, as by a join that went wrong: each column keeps its
distribution, so that checks of single columns see nothing. The error of women rises beyond chance;
that of men, two thirds of the rows, hides the change in the error of all.
"""

import matplotlib.pyplot as plt
import numpy as np

import fairspan as fs

people = fs.datasets.load_adult_by_sex()
rng = np.random.default_rng(0)
order = rng.permutation(len(people.X))
X, sex = people.X[order], np.asarray(people.sensitive_features)[order]
# Without indicators that are constant among 2,500 people.
X = X[:, X.mean(axis=0) > 0.01]
fair = fs.FairPCA(10, scale=True).fit(X[:10_000], sensitive_features=sex[:10_000])

monitor = fs.Monitor(fair)
for month in range(1, 10):
    chunk = slice(7_500 + 2_500 * month, 10_000 + 2_500 * month)
    rows, groups = X[chunk].copy(), sex[chunk]
    if month == 7:
        women = groups == "Female"
        rows[women] = rng.permuted(rows[women], axis=0)
    monitor.add(rows, groups, date=f"2026-{month:02}-28")
monitor.history.plot()
plt.show()

# %%
# The conclusion of each look:

for look in monitor.history.looks:
    changes = [f"{group.group} {group.relative_drift.value:+.1%}" for group in look.groups]
    print(look.number, ", ".join(changes), "risen:" if look.alarms else "", *look.alarms)
assert [look.number for look in monitor.history.looks if look.alarms] == [7]
assert monitor.history.looks[6].alarms == ("Female",)
