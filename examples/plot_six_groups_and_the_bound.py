"""
With six groups the largest loss on the rows meets its bound, and new rows say less
===================================================================================

Three levels of education, crossed with sex. What would new rows show? Lines are intervals, whose
colour is that of the state; grey says that these rows cannot tell. The short lines across
are the losses on the rows themselves.
"""

import matplotlib.pyplot as plt

import fairspan as fs
from reproduction.data import load

people = load("default_credit", group="education_sex6")
X, groups = people.X, people.sensitive_features
fair = fs.FairPCA(5, scale=True).fit(X, sensitive_features=groups)

fs.displays.GroupLossDisplay.from_estimator(fair, X, groups, on_rows=True)
plt.show()

# %%
# On new rows PCA is not shown to harm any group. The repair, which made the losses on the rows as
# equal as they can be, moves error to the two groups that have most rows.

verdict = fs.audit({"fair": fair}, X, groups).verdict
print(verdict)
assert verdict.kind == "no harm shown, repair harms"
assert all(group.endswith("university_or_above") for group in verdict.groups)

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
