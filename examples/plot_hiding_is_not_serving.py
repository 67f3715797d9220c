"""
A fair projection does not hide the group, and hiding does not make it fair
===========================================================================

A criterion controls how well each group is described. A restriction removes what distinguishes the
groups. Neither does the work of the other: this page measures how well a classifier predicts the
group on held-out rows, and the largest loss.
"""

import matplotlib.pyplot as plt
from sklearn.model_selection import train_test_split

import fairspan as fs

people = fs.datasets.load_adult_by_sex()
train, test, g_train, g_test = train_test_split(
    people.X, people.sensitive_features, random_state=0, stratify=people.sensitive_features
)
settings = {"n_components": 2, "scale": True}
models = {
    "PCA": fs.FairPCA(criterion="total_error", **settings),
    "fair": fs.FairPCA(**settings),
    "hidden": fs.FairPCA(restriction=fs.MeanParity(), **settings),
}

leaks, losses = {}, {}
for name, model in models.items():
    model.fit(train, sensitive_features=g_train)
    leaks[name] = fs.metrics.leakage(model.transform(train), g_train, model.transform(test), g_test)
    losses[name] = model.group_losses_.max()
    print(f"{name:6} leakage {leaks[name]:.2f}, largest loss {losses[name]:.2f}")
assert leaks["fair"] > 0.4 > 0.2 > leaks["hidden"]
assert losses["hidden"] > losses["fair"]

# %%
# Under the fair projection, women and men differ visibly.

fs.displays.ReducedRowsDisplay.from_estimator(models["fair"], test, g_test)
plt.show()

# %%
# With equal means, the same rows have one center.

fs.displays.ReducedRowsDisplay.from_estimator(models["hidden"], test, g_test)
plt.show()
