"""
PCA costs people of lower education more than the others at every dimension
===========================================================================

30,000 credit card holders, 22 features, in two groups. A group's loss is what its error exceeds the
best that the same number of dimensions could do for it alone. PCA serves the larger group; fair PCA
makes the larger loss as small as any subspace can.
"""

import matplotlib.pyplot as plt

import fairspan as fs

people = fs.datasets.load("default_credit")
fair = fs.FairPCA(n_components=8, scale=True)
fair.fit(people.X, sensitive_features=people.sensitive_features)

display = fs.displays.ErrorCurveDisplay.from_estimator(
    fair, dimensions=range(1, 21), quantity="loss"
)
display.plot()
plt.show()

# %%
# The numbers behind the picture, and the claim.

plain, repaired = display.plain, display.fair  # one row a dimension, one column a group
higher, lower = (display.groups.index(name) for name in ("higher", "lower"))
assert (plain[:, lower] > plain[:, higher]).all()
assert (repaired.max(axis=1) <= plain.max(axis=1) + 1e-9).all()
eight = list(display.dimensions).index(8)
print(f"largest loss with 8 dimensions: {plain[eight].max():.3f}, fair {repaired[eight].max():.3f}")
