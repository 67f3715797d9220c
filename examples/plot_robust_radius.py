"""
Robustness to new distributions leaves a gap on the rows of the fit
===================================================================

The robust error gap considers the worst distribution within a radius of each group's rows. The
larger the radius, the less the gap on the rows of the fit counts.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import fairspan as fs
from reproduction.vu.radius import N_TEST, performance
from reproduction.vu.toy import N_TRAIN, toy_rows

people = fs.datasets.load_adult_by_sex()
# Without indicators so rare that they may be constant among 300 people.
X = people.X[:, people.X.mean(axis=0) > 0.03]
few, _, groups, _ = train_test_split(X, people.sensitive_features, train_size=300, random_state=0)
robust = fs.FairPCA(5, criterion=fs.RobustErrorGap(penalty=0.5, radius=0.15), scale=True)
robust.fit(few, sensitive_features=groups)

display = fs.displays.DisparityPathDisplay.from_estimator(
    robust, "criterion__radius", np.linspace(0, 2, 11)
)
plt.show()

# %%
# Radius zero is the error gap criterion.

gap = fs.FairPCA(5, criterion=fs.ErrorGap(penalty=0.5), scale=True).fit_moments(robust.moments_)
gaps = np.abs(display.disparity)
print(f"gap at radius 0: {gaps[0]:.3f}, at radius {display.values[-1]:.0f}: {gaps[-1]:.3f}")
assert np.isclose(gaps[0], abs(gap.disparity_), atol=1e-6)
assert gaps[-1] > gaps[0] + 0.1
assert robust.solution_.status == "optimal"

# %%
# Out of sample, a radius can help. Vu et al. (2022) draw two normal groups in the plane, 200 and
# 100 rows, and increase the radius of the smaller group (their Figure 4). On many new rows, error
# plus gap first falls, and rises again once the radius is so large that the rows hardly matter.

radii = [0.0, 1.0, 2.5, 5.0, 7.5, 10.0]
new_rows = toy_rows(N_TEST, np.random.default_rng(0))
draws = [toy_rows(N_TRAIN, np.random.default_rng((1, i))) for i in range(20)]
figures = np.mean([performance(draw, new_rows, radii) for draw in draws], axis=0)
worse = dict(zip(radii, figures.sum(axis=1), strict=True))
figure, ax = plt.subplots()
for name, values in (
    ("error", figures[:, 1]),
    ("gap", figures[:, 0]),
    ("both", figures.sum(axis=1)),
):
    ax.plot(radii, values, marker="o", label=name)
ax.set(xlabel="radius of the smaller group", ylabel="on new rows, means of 20 draws")
ax.legend()
plt.show()

print("error plus gap:", {alpha: round(float(value), 2) for alpha, value in worse.items()})
assert worse[2.5] < worse[0.0] - 0.1
assert worse[10.0] > worse[2.5] + 0.3
