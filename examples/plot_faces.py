"""
Fair components of faces look like PCA's, and neither harms women or men
========================================================================

1,000 faces of women and 1,000 of men, 24 by 18 pixels. Fairness need not change what the components
show: a small turn of the subspace makes the losses of both groups on these rows equal. It was not
needed: on new rows PCA is not shown to harm anybody.
"""

import matplotlib.pyplot as plt
import numpy as np

import fairspan as fs
from reproduction.data import load_faces

faces = load_faces(n_per_gender=1000, shape=(24, 18))
moments = fs.GroupMoments.from_rows(faces.X, faces.sensitive_features)
plain = fs.FairPCA(10, criterion="total_error").fit_moments(moments)
fair = fs.FairPCA(10).fit_moments(moments)

fs.displays.LoadingsDisplay.from_estimator(plain, image_shape=(24, 18))
plt.show()

# %%
# These were PCA's components. The fair ones:

fs.displays.LoadingsDisplay.from_estimator(fair, image_shape=(24, 18))
plt.show()

# %%
# What new faces would show.

found = fs.audit({"fair": fair}, faces.X, faces.sensitive_features)
found.plot()
plt.show()
print(found.verdict)
assert found.verdict.kind == "no harm shown"

# %%
# The angles between the two subspaces, and the losses on these rows before and after.

cosines = np.linalg.svd(plain.components_ @ fair.components_.T, compute_uv=False)
print(f"largest angle: {np.degrees(np.arccos(cosines.min())):.1f} degrees")
for name, fit in (("PCA", plain), ("fair", fair)):
    print(f"losses on these rows with {name}: {fit.group_losses_.round(4)}")
assert cosines.min() > 0.99
assert np.ptp(fair.group_losses_) < 1e-6 < np.ptp(plain.group_losses_)
