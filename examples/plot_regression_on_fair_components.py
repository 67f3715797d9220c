"""
A regression on fair components explains as much as one on PCA components
=========================================================================

Fair components need not make a later model worse: this page predicts the progression of diabetes
from every number of components. Nor do they make the model fair: its errors still differ by sex.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import fairspan as fs
from fairspan.regression import principal_component_regression

patients = load_diabetes(as_frame=True, scaled=False)
features = fs.GroupMoments.from_rows(patients.data, "sex")
everything = patients.data.assign(progression=patients.target)
moments = fs.GroupMoments.from_rows(everything, "sex")

fits = {"total_error": [], "minimax_loss": []}
for name, regressions in fits.items():
    for d in range(1, 10):
        reduction = fs.FairPCA(d, criterion=name, scale=True).fit_moments(features)
        regressions.append(principal_component_regression(moments, "progression", reduction))
plain, fair = (np.array([fit.r2 for fit in regressions]) for regressions in fits.values())

figure, axes = plt.subplots(layout="constrained")
axes.plot(range(1, 10), plain, "s--", color="#545b65", label="on PCA components")
axes.plot(range(1, 10), fair, "o-", color="#0072b2", label="on fair components")
axes.set(xlabel="components", ylabel="share of the target's variance explained", ylim=(0, 0.6))
axes.legend()
plt.show()

# %%
# R2 is nearly the same; the errors by sex differ.

print(f"largest difference in R2: {np.abs(plain - fair).max():.3f}")
errors = fits["minimax_loss"][4].group_errors
print("mean squared errors by sex, on 5 fair components:", errors.round())
assert np.abs(plain - fair).max() < 0.02
assert np.ptp(errors) > 100
