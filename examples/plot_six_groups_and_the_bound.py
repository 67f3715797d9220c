"""
With six groups the largest loss on the rows attains its bound
==============================================================

The groups are three levels of education, crossed with sex. The first figure shows the expected loss
of each group on new rows: lines are intervals, colored by state, and the short lines across are the
losses on the rows of the fit.
"""

import matplotlib.pyplot as plt
import numpy as np

import fairspan as fs

people = fs.datasets.load_adult_by_sex()
years = people.feature_names.index("education-num")
level = np.digitize(people.X[:, years], [9, 13])
education = np.array(["no degree", "school", "college"])[level]
X, groups = (
    np.delete(people.X, years, axis=1),
    np.column_stack([people.sensitive_features, education]),
)
fair = fs.FairPCA(3, scale=True).fit(X, sensitive_features=groups)

fs.displays.GroupLossDisplay.from_estimator(fair, X, groups, show_observed=True)
plt.show()

# %%
# PCA is shown to harm all six groups. The fair fit makes the largest loss on these rows as small as
# possible. Women without a degree gain from it and larger groups pay: a repair at a cost.

verdict = fs.audit({"fair": fair}, X, groups).verdict
print(verdict)
assert verdict.kind == "harm, repair at a cost"
assert len(verdict.groups) == 6

# %%
# The proof is about the rows of the fit. With more than two groups, minimizing the largest loss is
# harder, so the certificate has a lower bound for every subspace.

fs.displays.GroupLossDisplay.from_estimator(fair)
plt.show()

# %%
# Objective, lower bound and status of the certificate:

proof = fair.solution_
print(f"largest loss {proof.objective:.6f}, lower bound {proof.lower_bound:.6f}")
print(f"status: {proof.status}")
assert proof.status == "optimal"
assert fair.group_losses_.max() - proof.lower_bound < 1e-6
