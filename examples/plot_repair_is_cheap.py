"""
Halving the largest loss costs 4 percent more error over everyone
=================================================================

The price of fairness is a number. Here the group that PCA serves worst loses less than half of what
it lost, the other group takes its part, and the error over all people rises by little.
"""

import matplotlib.pyplot as plt

import fairspan as fs

people = fs.datasets.load("default_credit")
moments = fs.GroupMoments.from_rows(people.X, people.sensitive_features)
plain = fs.FairPCA(8, criterion="total_error", scale=True).fit_moments(moments)
fair = fs.FairPCA(8, scale=True).fit_moments(moments)

fs.displays.GroupLossDisplay.from_estimator(fair).plot()
plt.show()

# %%
# What is gained, and what it costs.

largest_loss = fair.group_losses_.max() / plain.group_losses_.max()
total_error = moments.proportions @ fair.group_errors_ / (moments.proportions @ plain.group_errors_)
print(f"largest loss: {largest_loss - 1:+.0%}; error over everyone: {total_error - 1:+.1%}")
assert largest_loss < 0.5
assert total_error < 1.045
