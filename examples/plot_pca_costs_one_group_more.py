"""
PCA harms women in a census with one to eight dimensions
========================================================

The rows are 32,561 people with 40 features. A group's loss is its error minus that of its own best
subspace of the same dimension, here estimated for new rows. Women lose beyond chance with every
number of dimensions shown. Men, two thirds of the people, are shown to lose as well, but with one
dimension too little to matter.
"""

import matplotlib.pyplot as plt

import fairspan as fs

people = fs.datasets.load_adult_by_sex()
X, sex = people.X, people.sensitive_features
dimensions = range(1, 9)
groups = {}
for d in dimensions:
    pca = fs.FairPCA(d, criterion="total_error", scale=True).fit(X, sensitive_features=sex)
    for group in fs.audit({"PCA": pca}, X, sex).models[0].groups:
        groups[group.group, d] = group

figure, axes = plt.subplots(layout="constrained")
looks = ("Female", "women", "#d55e00", -0.05), ("Male", "men", "#0072b2", 0.05)
for name, label, color, shift in looks:
    for d in dimensions:
        loss = groups[name, d].expected_loss
        percent = groups[name, d].observed_total_variance / 100
        axes.plot([d + shift] * 2, [loss.low / percent, loss.high / percent], color=color)
        label_once = label if d == 1 else None
        axes.plot(d + shift, loss.value / percent, "o", color=color, label=label_once)
axes.set(xlabel="dimensions", ylabel="expected loss, % of the group's variance")
axes.legend()
plt.show()

# %%
# The state of each group. States hold for both groups at once, at one number of dimensions.

for d in dimensions:
    print(f"d = {d}: women {groups['Female', d].state}, men {groups['Male', d].state}")
assert all(groups["Female", d].state == "harmed" for d in dimensions)
assert [groups["Male", d].state for d in dimensions] == ["minor"] + ["harmed"] * 7
