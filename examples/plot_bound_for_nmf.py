"""
A bound for the models of others: non-negative matrix factorization
===================================================================

How much better could another model of the same size serve the group that is served worst? The bound
of the fair subspace answers this for every model that reconstructs rows as weighted sums of d
common components, whatever its encoder: non-negative matrix factorization, dictionaries,
autoencoders with a linear decoder. Here the images of the digits 0 to 4 and 5 to 9 are two groups.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

import fairspan as fs

images, digits = load_digits(return_X_y=True)
group = np.where(digits >= 5, "5 to 9", "0 to 4")
warnings.simplefilter("ignore", ConvergenceWarning)

dimensions = [2, 4, 6, 8, 10, 12]
results = [
    fs.metrics.rank_bound(NMF(d, init="nndsvda", max_iter=300).fit(images), images, group)
    for d in dimensions
]
for bound in results:
    print(bound)
    assert bound.largest_error > bound.bound

# %%
# The largest error, as a share of the group's mean square, and the bound. What is above the line
# is the price of components without negative entries; fairness alone cannot explain it.

_, ax = plt.subplots(layout="constrained")
ax.plot(dimensions, [100 * result.largest_error for result in results], "o-", label="NMF")
ax.plot(
    dimensions, [100 * result.bound for result in results], "k--", label="bound for linear decoders"
)
ax.set(
    xlabel="number of components",
    ylabel="largest error of a group, %",
    ylim=(0, None),
)
ax.legend(frameon=False)
plt.show()
