"""
A small trade-off overshoots: the other group then has the larger error
=======================================================================

The disparity criterion trades the total error against a signed gap, in one eigenproblem. Because
the gap has a sign, small values of the trade-off reverse it instead of closing it. Audit the result
whenever you change the trade-off.
"""

import matplotlib.pyplot as plt
import numpy as np

import fairspan as fs

people = fs.datasets.load_adult_by_sex()
disparity = fs.FairPCA(5, criterion=fs.Disparity(trade_off=0.5), scale=True)
disparity.fit(people.X, sensitive_features=people.sensitive_features)

display = fs.displays.DisparityPathDisplay.from_estimator(
    disparity, "criterion__trade_off", np.linspace(0, 1, 21)
)
plt.show()

# %%
# A trade-off of 1 is PCA; at 0 the sign of the gap is reversed.

at = dict(zip(display.values.round(2), display.disparity, strict=True))
print(f"disparity of PCA {at[1.0]:+.2f}, at a trade-off of 0.5 {at[0.5]:+.2f}, at 0 {at[0.0]:+.2f}")
assert np.isclose(at[1.0], display.pca_disparity)
assert at[1.0] * at[0.0] < 0
