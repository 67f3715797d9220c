"""
With six groups the largest loss on the rows meets its bound, and somebody pays
===============================================================================

Three levels of education, crossed with sex. What would new rows show? Lines are intervals, whose
color is that of the state. The short lines across are the losses on the rows themselves.
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
# PCA is shown to harm all six groups. The repair makes the largest loss on these rows as small as
# it can be. Women without a degree gain from it, and larger groups pay: the verdict calls that a
# trade.

verdict = fs.audit({"fair": fair}, X, groups).verdict
print(verdict)
assert verdict.kind == "harm, repair at a cost"
assert len(verdict.groups) == 6

# %%
# What is proven is about these rows. For more than two groups a subspace that makes the largest
# loss smallest is harder to find, so the fit comes with a bound that no subspace can beat.

fs.displays.GroupLossDisplay.from_estimator(fair)
plt.show()

# %%
# The certificate: value, bound, and what is left between them.

proof = fair.solution_
print(f"largest loss {proof.objective:.6f}, no subspace below {proof.lower_bound:.6f}")
print(f"status: {proof.status}")
assert proof.status == "optimal"
assert fair.group_losses_.max() - proof.lower_bound < 1e-6
