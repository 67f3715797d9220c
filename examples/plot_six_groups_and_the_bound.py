"""
With six groups the largest loss meets its proven bound
=======================================================

Three levels of education, crossed with sex. For more than two groups a subspace that makes the
largest loss smallest is harder to find, so the fit comes with a bound that no subspace can beat.
"""

import matplotlib.pyplot as plt

import fairspan as fs

people = fs.datasets.load("default_credit", group="education_sex6")
fair = fs.FairPCA(5, scale=True).fit(people.X, sensitive_features=people.sensitive_features)

fs.displays.GroupLossDisplay.from_estimator(fair).plot()
plt.show()

# %%
# The certificate: value, bound, and what is left between them.

proof = fair.solution_
print(f"largest loss {proof.objective:.6f}, no subspace below {proof.lower_bound:.6f}")
print(f"status: {proof.status}")
assert proof.status == "optimal"
assert fair.group_losses_.max() - proof.lower_bound < 1e-6
