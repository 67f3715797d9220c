"""
Moments from three sites give the same model as all rows in one place
=====================================================================

Each hospital computes moments of its rows: a count, a mean and a covariance for each group. Only
the moments leave the hospital. Their sum equals the moments of all rows.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

from fairspan import FairPCA, GroupMoments

patients = load_diabetes(as_frame=True, scaled=False).data
sites = {f"site-{name}": patients.iloc[number::3] for number, name in enumerate("abc")}

with tempfile.TemporaryDirectory() as folder:
    # At each site. Only this file leaves it.
    for name, rows in sites.items():
        moments = GroupMoments.from_rows(rows, "sex").drop_small_groups(20)
        moments.save(Path(folder) / f"{name}.moments")

    # At the coordinator.
    files = sorted(Path(folder).glob("*.moments"))
    together = sum(GroupMoments.load(file) for file in files)

federated = FairPCA(n_components=5, scale=True).fit_moments(together)
pooled = FairPCA(n_components=5, scale=True).fit(patients, sensitive_features="sex")
difference = np.abs(federated.components_ - pooled.components_).max()
print(f"{len(files)} sites, {together.counts.sum()} rows, status {federated.solution_.status}")
print(f"largest difference of a loading: {difference:.0e}")
assert difference < 1e-9

# %%
# A site transforms its own rows with the model, without any row of the others.

reduced = federated.transform(sites["site-a"].drop(columns="sex"))
figure, axes = plt.subplots(layout="constrained")
axes.scatter(pooled.components_, federated.components_, color="#0072b2")
axes.plot([-1, 1], [-1, 1], color="gray", linewidth=1, zorder=0)
axes.set(xlabel="loading, fit on all rows", ylabel="loading, fit on the sum of moments")
print(f"site-a: {reduced.shape[0]} rows reduced to {reduced.shape[1]} numbers")
