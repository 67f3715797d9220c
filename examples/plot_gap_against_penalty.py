"""
Above some penalty, the gap between two groups is closed
========================================================

The error gap criterion adds a penalty on the gap to the total error. At penalty zero it is PCA. The
gap never grows with the penalty, and above some penalty the solution no longer changes.
"""

import matplotlib.pyplot as plt
import numpy as np

import fairspan as fs

people = fs.datasets.load_adult_by_sex()
gap = fs.FairPCA(5, criterion=fs.ErrorGap(penalty=0.5), scale=True)
gap.fit(people.X, sensitive_features=people.sensitive_features)

display = fs.displays.DisparityPathDisplay.from_estimator(gap, values=np.linspace(0, 2, 21))
plt.show()

# %%
# The gap falls and the total error rises until the errors are equal.

gaps = np.abs(display.disparity)
assert (np.diff(gaps) <= 1e-6).all()
assert (np.diff(display.total_error) >= -1e-6).all()
assert gaps[-1] < 1e-6
first = display.values[np.argmax(gaps < 1e-6)]
print(f"gap of PCA {gaps[0]:.3f}; closed at a penalty of {first:.1f}")
