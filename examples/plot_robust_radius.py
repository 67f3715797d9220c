"""
Guarding against other rows leaves a gap on those of the fit
============================================================

The robust error gap looks at the worst distribution within a radius of each group's rows. The wider
the ball, the less the gap on these very rows counts: robustness is paid for, and seen here.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import fairspan as fs
from reproduction.data import load

people = load("default_credit")
few, _, groups, _ = train_test_split(
    people.X, people.sensitive_features, train_size=200, random_state=0
)
robust = fs.FairPCA(5, criterion=fs.RobustErrorGap(penalty=0.5, radius=0.15), scale=True)
robust.fit(few, sensitive_features=groups)

display = fs.displays.DisparityPathDisplay.from_estimator(
    robust, "criterion__radius", np.linspace(0, 2, 11)
)
plt.show()

# %%
# At radius zero it is the error gap criterion itself.

gap = fs.FairPCA(5, criterion=fs.ErrorGap(penalty=0.5), scale=True).fit_moments(robust.moments_)
gaps = np.abs(display.disparity)
print(f"gap at radius 0: {gaps[0]:.3f}, at radius {display.values[-1]:.0f}: {gaps[-1]:.3f}")
assert np.isclose(gaps[0], abs(gap.disparity_), atol=1e-6)
assert gaps[-1] > gaps[0] + 0.1
assert robust.solution_.status == "optimal"
