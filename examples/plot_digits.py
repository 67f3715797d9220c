"""
Fair components of handwritten digits look like those of PCA
============================================================

Fairness need not change what components show. The rows are 1,797 images of 8 by 8 pixels, grouped
into even and odd digits. A small rotation of the subspace makes the losses of both groups equal on
these images. New images are not shown to gain from it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import fairspan as fs

digits = load_digits()
parity = np.where(digits.target % 2, "odd", "even")
moments = fs.GroupMoments.from_rows(digits.data, parity)
plain = fs.FairPCA(10, criterion="total_error").fit_moments(moments)
fair = fs.FairPCA(10).fit_moments(moments)

fs.displays.LoadingsDisplay.from_estimator(plain, image_shape=(8, 8))
plt.show()

# %%
# The figure above shows the components of PCA. The fair components are:

fs.displays.LoadingsDisplay.from_estimator(fair, image_shape=(8, 8))
plt.show()

# %%
# The audit estimates losses on new images.

result = fs.audit({"fair": fair}, digits.data, parity)
result.plot()
plt.show()
print(result.verdict)
assert result.verdict.kind == "harm, repair not shown to help"

# %%
# The largest angle between the two subspaces, and the losses on these images:

cosines = np.linalg.svd(plain.components_ @ fair.components_.T, compute_uv=False)
print(f"largest angle: {np.degrees(np.arccos(cosines.min())):.1f} degrees")
for name, fit in (("PCA", plain), ("fair", fair)):
    print(f"losses on these images with {name}: {fit.group_losses_.round(2)}")
assert cosines.min() > 0.99
assert np.ptp(fair.group_losses_) < 1e-6 < np.ptp(plain.group_losses_)
