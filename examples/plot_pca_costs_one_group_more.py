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
group_audits = {}
for d in dimensions:
    plain = fs.FairPCA(d, criterion="total_error", scale=True).fit(X, sensitive_features=sex)
    for group in fs.audit({"PCA": plain}, X, sex).models[0].groups:
        group_audits[group.group, d] = group

figure, axes = plt.subplots(layout="constrained")
looks = ("Female", "women", "#d55e00", -0.05), ("Male", "men", "#0072b2", 0.05)
for name, label, color, shift in looks:
    for d in dimensions:
        loss, variance = (
            group_audits[name, d].expected_loss,
            group_audits[name, d].observed_total_variance / 100,
        )
        axes.plot([d + shift] * 2, [loss.low / variance, loss.high / variance], color=color)
        legend_label = label if d == 1 else None
        axes.plot(d + shift, loss.value / variance, "o", color=color, label=legend_label)
axes.set(xlabel="dimensions", ylabel="expected loss, % of the group's variance")
axes.legend()
plt.show()

# %%
# The state of each group. States hold for both groups at once, at one number of dimensions.

for d in dimensions:
    print(f"d = {d}: women {group_audits['Female', d].state}, men {group_audits['Male', d].state}")
assert all(group_audits["Female", d].state == "harmed" for d in dimensions)
assert [group_audits["Male", d].state for d in dimensions] == ["minor"] + ["harmed"] * 7
