"""
Moments from three sites fit the same model as all rows in one place
====================================================================

Each hospital turns its rows into moments: per group a count, a mean and a covariance. Only these
leave it. Their sum is what one pass over all rows would have given.
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
    # On each site: only this file leaves.
    for name, rows in sites.items():
        moments = GroupMoments.from_rows(rows, "sex").drop_small_groups(20)
        moments.save(Path(folder) / f"{name}.moments")

    # Wherever the files arrive.
    files = sorted(Path(folder).glob("*.moments"))
    together = sum(GroupMoments.load(file) for file in files)

federated = FairPCA(n_components=5, scale=True).fit_moments(together)
pooled = FairPCA(n_components=5, scale=True).fit(patients, sensitive_features="sex")
difference = np.abs(federated.components_ - pooled.components_).max()
print(f"{len(files)} sites, {together.counts.sum()} rows, status {federated.solution_.status}")
print(f"largest difference of a loading: {difference:.0e}")
assert difference < 1e-9

# %%
# A site reduces its own rows with the model, which knows no row of the others.

reduced = federated.transform(sites["site-a"].drop(columns="sex"))
figure, axes = plt.subplots(layout="constrained")
axes.scatter(pooled.components_, federated.components_, color="#0072b2")
axes.plot([-1, 1], [-1, 1], color="gray", linewidth=1, zorder=0)
axes.set(xlabel="loading, all rows in one place", ylabel="loading, from three files of moments")
print(f"site-a: {reduced.shape[0]} rows reduced to {reduced.shape[1]} numbers")
