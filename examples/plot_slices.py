"""
A slice with a large error need not lose anything
=================================================

Two slices of customers are unusual. In the north everything varies twice as much, in the same
directions. Old customers in rural areas vary in another direction. A search for large errors finds
the north, which no projection would serve better; :func:`~fairspan.find_slices` finds the old
customers in rural areas, who lose because the projection suits the others.
"""

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import fairspan as fs

rng = np.random.default_rng(0)
n = 6_000
customers = pd.DataFrame(
    {
        "age": rng.choice(["young", "old"], n),
        "area": rng.choice(["urban", "rural"], n),
        "region": rng.choice(["north", "south", "west"], n),
    }
)
X = rng.standard_normal((n, 6)) * [3, 2, 1, 1, 1, 1]
old_and_rural = ((customers["age"] == "old") & (customers["area"] == "rural")).to_numpy()
X[old_and_rural] = X[old_and_rural][:, [0, 2, 1, 3, 4, 5]]
X[customers["region"] == "north"] *= 2
fit, new = slice(0, 2_000), slice(2_000, None)

pca = fs.FairPCA(2, missing_groups="ignore").fit(X[fit])
result = fs.find_slices(pca, X[new], customers[new])
print(result)

# %%
# Errors and losses of all slices of one or two attributes, on the new rows. The errors of parts of
# the north are the largest, and their losses are close to zero.

slices = []
singles = [[name] for name in customers]
for names in singles + [list(pair) for pair in combinations(customers, 2)]:
    labels = customers[new][names].agg(" & ".join, axis=1)
    for group in fs.audit(pca, X[new], labels).models[0].groups:
        loss = 100 * group.expected_loss_share.value
        slices.append((group.group, group.expected_error.value, loss))

fig, ax = plt.subplots(figsize=(6.5, 4.2))
for name, error, loss in slices:
    is_named = name in ("old & rural", "north")
    ax.plot(error, loss, "D" if is_named else "o", color="#d55e00" if is_named else "#0072b2")
    if is_named:
        ax.annotate(name, (error, loss), (7, 5), textcoords="offset points")
ax.margins(y=0.12)
ax.axhline(0, color="#767676", linewidth=0.8)
ax.set(xlabel="error", ylabel="loss, % of the variance")
ax.set_title("Errors and losses of slices", loc="left")
fig.tight_layout()
plt.show()

assert [slice_.name for slice_ in result.confirmed] == ["age=old & area=rural"]
