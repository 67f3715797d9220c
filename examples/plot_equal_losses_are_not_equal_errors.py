"""
Equal losses are not equal errors
=================================

One group may be harder to compress than another. With equal losses, both errors exceed the best
possible error of their group by the same amount. With equal errors, both groups are described
equally well, and the group that is easier to compress pays for it.
"""

import matplotlib.pyplot as plt
import numpy as np

import fairspan as fs

people = fs.datasets.load_adult_by_sex()
moments = fs.GroupMoments.from_rows(people.X, people.sensitive_features)
names = ("total_error", "minimax_loss", "equal_error")
fits = [fs.FairPCA(5, criterion=name, scale=True).fit_moments(moments) for name in names]

figure, panels = plt.subplots(1, 2, figsize=(8.5, 3.8), layout="constrained")
for panel, figure_name in zip(panels, ("loss", "error"), strict=True):
    values = np.array(
        [fit.group_losses_ if figure_name == "loss" else fit.group_errors_ for fit in fits]
    )
    for g, (group, color) in enumerate(zip(moments.labels, ("#0072b2", "#d55e00"), strict=True)):
        look = {"color": color, "hatch": "///" if g else "", "edgecolor": "white"}
        places = np.arange(3) + 0.4 * g - 0.2
        panel.bar(places, values[:, g], 0.36, label=f"{group}", **look)
    panel.set_xticks(range(3), ["PCA", "equal losses", "equal errors"])
    panel.set(title=f"{figure_name} of each group", ylabel=figure_name)
figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
plt.show()

# %%
# Losses are equal in the second fit and errors in the third; no fit has both.

_, equal_losses, equal_errors = fits
assert np.isclose(*equal_losses.group_losses_)
assert np.isclose(*equal_errors.group_errors_)
print("errors with equal losses:", equal_losses.group_errors_.round(2))
print("losses with equal errors:", equal_errors.group_losses_.round(2))
assert np.ptp(equal_losses.group_errors_) > 1
assert np.ptp(equal_errors.group_losses_) > 1
