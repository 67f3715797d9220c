"""
What the first two components mean
==================================

A biplot shows a sample of the rows by group, and the loadings of the features as arrows. Rotated
components are easy to name: one is cholesterol (s1, s2), the other "good" cholesterol (s3) against
a metabolic load. The correlation circle shows how well the plane represents each feature.
"""

import matplotlib.pyplot as plt
import pandas as pd

import fairspan as fs
from fairspan.displays import BiplotDisplay, CorrelationCircleDisplay

patients = fs.datasets.load_diabetes_by_sex()
X = pd.DataFrame(patients.X, columns=patients.feature_names)
sex = patients.sensitive_features
rotated = fs.FairPCA(2, scale=True, rotation="varimax").fit(X, sensitive_features=sex)
BiplotDisplay.from_estimator(rotated, X, sex)
plt.show()

# %%
# Arrows that reach the inner circle belong to features of which the plane explains at least half of
# the variance. Coordinates of rotated components are correlated, so the circle is drawn without.

fair = fs.FairPCA(2, scale=True).fit(X, sensitive_features=sex)
circle = CorrelationCircleDisplay.from_estimator(fair)
plt.show()
assert circle.n_represented == CorrelationCircleDisplay.compute(rotated).n_represented
