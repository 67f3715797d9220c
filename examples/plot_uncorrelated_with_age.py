"""
Components that are uncorrelated with age
=========================================

With ``Uncorrelated("age")``, no linear regression predicts age from the transformed rows. Nonlinear
relations remain: a forest predicts who is near fifty, unless the square of the age is hidden too.
Each column removes one direction.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

import fairspan as fs

rng = np.random.default_rng(0)
n = 4_000
group = rng.choice(["women", "men"], n)
age = rng.uniform(20, 80, n)
since_fifty = (age - 50) / 20
X = rng.standard_normal((n, 12)) * np.linspace(2, 1, 12)
for power in (1, 2):
    X += np.outer(since_fifty**power, 0.5 * rng.normal(size=12))
X[:, 0] += group == "men"
people = pd.DataFrame(X).add_prefix("x")
features = list(people)
people["age"], people["its square"] = age, since_fifty**2
train, test = people[: n // 2], people[n // 2 :]

hidden = {"PCA": [], "uncorrelated": ["age"], "and with its square": ["age", "its square"]}
methods = {
    "age, by linear regression": ("age", LinearRegression()),
    "its square, by a forest": (
        "its square",
        RandomForestRegressor(100, min_samples_leaf=20, random_state=0),
    ),
}
r2_scores, captured = {name: [] for name in methods}, []
for columns in hidden.values():
    restriction = fs.Uncorrelated(columns) if columns else None
    fair = fs.FairPCA(6, criterion="total_error", restriction=restriction)
    fair.fit(train[features + columns], sensitive_features=group[: n // 2])
    captured.append(fair.explained_variance_ratio_.sum())
    for name, (target, method) in methods.items():
        method.fit(fair.transform(train[features]), train[target])
        predicted = method.predict(fair.transform(test[features]))
        r2_scores[name].append(r2_score(test[target], predicted))

figure, axes = plt.subplots(layout="constrained")
places = np.arange(len(hidden))
for shift, (name, scores) in zip((-0.2, 0.2), r2_scores.items(), strict=True):
    axes.bar(places + shift, scores, 0.38, label=name)
axes.set_xticks(
    places, [f"{name}\nkeeps {k:.0%}" for name, k in zip(hidden, captured, strict=True)]
)
axes.set_ylabel("share of variance explained, on held-out rows")
axes.axhline(0, color="#545b65", linewidth=0.8)
axes.legend()
plt.show()

# %%
# Predictability of age and of its square, and the variance kept:

for name, scores in r2_scores.items():
    print(f"{name:26}", dict(zip(hidden, np.round(scores, 3).tolist(), strict=True)))
print("kept", np.round(captured, 3).tolist())
linear, forest = r2_scores.values()
assert linear[0] > 0.3 > 0.01 > max(linear[1:])
assert min(forest[:2]) > 0.2 > 0.05 > forest[2]
assert captured[0] > captured[1] > captured[2] > 0.7 * captured[0]
