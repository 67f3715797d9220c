"""
Ten lines of numpy verify that a fit is optimal
===============================================

For weights w of the groups, no subspace has a smaller weighted loss than the leading eigenvectors
of the weighted second moments, and the largest loss is at least any weighted one. So every w proves
a lower bound. A certificate has the w whose bound equals the objective.
"""

import matplotlib.pyplot as plt
import numpy as np

import fairspan as fs

people = fs.datasets.load_diabetes_by_sex()
d = 5
fair = fs.FairPCA(d).fit(people.X, sensitive_features=people.sensitive_features)

mean = people.X.mean(axis=0)
groups = [people.X[people.sensitive_features == group] - mean for group in fair.groups_]
S = np.array([rows.T @ rows / len(rows) for rows in groups])


def least_error(matrix):
    """Return the sum of all but the d largest eigenvalues: the smallest error of d dimensions."""
    return np.linalg.eigvalsh(matrix)[:-d].sum()


def bound(w):
    """Return the lower bound on the largest loss that the weights prove."""
    return least_error(np.tensordot(w, S, axes=1)) - w @ [least_error(matrix) for matrix in S]


proof = fair.solution_
assert np.isclose(bound(proof.weights), proof.objective, rtol=1e-6)
print(f"largest loss {proof.objective:.4f}, proven bound {bound(proof.weights):.4f}")

# %%
# Other weights prove smaller bounds.

weights = np.linspace(0, 1, 201)
bounds = np.array([bound(np.array([t, 1 - t])) for t in weights])
assert bounds.max() <= proof.objective * (1 + 1e-9)
figure, axes = plt.subplots(layout="constrained")
axes.plot(weights, bounds, color="#0072b2", label="bound that the weight proves")
axes.axhline(proof.objective, color="#d55e00", linestyle="--", label="largest loss of the fit")
axes.plot(proof.weights[0], bound(proof.weights), "ko", label="the certificate")
axes.set(xlabel=f"weight of {fair.groups_[0]}", ylabel="squared units of the features")
axes.legend()
plt.show()
