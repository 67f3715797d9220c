"""
Every criterion is a point on one curve, or beyond its end
==========================================================

The curve is the Pareto frontier of two groups' errors: no pair of errors to its lower left is
achievable, and every point on it is. Choosing a criterion means choosing a point. Beyond an end of
the curve, both groups could have smaller errors.
"""

import matplotlib.pyplot as plt

import fairspan as fs

people = fs.datasets.load_adult_by_sex()
moments = fs.GroupMoments.from_rows(people.X, people.sensitive_features)
curve = fs.frontier(moments, n_components=8, scale=True, tol=1e-5)
curve.plot()
plt.show()

# %%
# The position of each criterion:

placed = {fit.name: fit for fit in curve.locate_all()}
for name, fit in placed.items():
    where = "on the curve" if fit.on_frontier else "beyond an end"
    print(f"{name:17} {fit.errors.round(3)} {where}")
always_on_curve = ("total_error", "minimax_loss", "minimax_error", "nash_welfare")
assert all(placed[name].on_frontier for name in always_on_curve)
assert not placed["disparity"].on_frontier
