"""
Every criterion is a point on one curve, or past its end
========================================================

No pair of errors to the lower left of the curve is possible, and every point on it is: choosing a
criterion is choosing a point. Past an end both groups could be served better at once.
"""

import matplotlib.pyplot as plt

import fairspan as fs

people = fs.datasets.load_adult_by_sex()
moments = fs.GroupMoments.from_rows(people.X, people.sensitive_features)
curve = fs.frontier(moments, n_components=8, scale=True, tol=1e-5)
curve.plot()
plt.show()

# %%
# Where each criterion lies.

placed = {each.name: each for each in curve.locate_all()}
for name, each in placed.items():
    where = "on the curve" if each.on_frontier else "past an end of it"
    print(f"{name:17} {each.errors.round(3)} {where}")
never_past = ("total_error", "minimax_loss", "minimax_error", "nash_welfare")
assert all(placed[name].on_frontier for name in never_past)
assert not placed["disparity"].on_frontier
