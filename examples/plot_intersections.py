"""
Fair to women and men, and to young and old, is not fair to older women
=======================================================================

Groups cross. A projection that costs both sexes the same, or both ages, can cost one intersection
several times as much. Only groups that are named are served.
"""

import matplotlib.pyplot as plt

import fairspan as fs

both = fs.datasets.load("german_credit", group=["sex", "age_lt40"])
asked = {
    "fair by sex": both.sensitive_features[:, 0],
    "fair by age": both.sensitive_features[:, 1],
    "fair by both": both.sensitive_features,
}
losses = {}
for name, groups in asked.items():
    fair = fs.FairPCA(5, scale=True).fit(both.X, sensitive_features=groups)
    losses[name] = fs.metrics.excess_loss(fair, both.X, both.sensitive_features)
    print(f"{name:12} largest loss {max(losses[name].values()):.2f}")

figure, axes = plt.subplots(layout="constrained")
ages = {"yes": "under 40", "no": "40 or older"}
hatches = ("", "///", "...")
for place, (name, each) in enumerate(losses.items()):
    at = [group + 0.27 * (place - 1) for group in range(len(each))]
    axes.bar(at, each.values(), 0.25, label=name, hatch=hatches[place], edgecolor="white")
axes.set_xticks(range(4), [f"{sex},\n{ages[age]}" for sex, age in each])
axes.set_ylabel("loss against the group's own best")
axes.legend()
plt.show()

# %%
# The same people are the worst served both times, until they are a group of their own.

worst = {name: max(each, key=each.get) for name, each in losses.items()}
older_women = ("female", "no")
assert worst["fair by sex"] == worst["fair by age"] == older_women
assert losses["fair by both"][older_women] < losses["fair by sex"][older_women] / 2
