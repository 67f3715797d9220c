"""
PCA harms patients with a benign tumour with two to six dimensions
==================================================================

569 patients, 30 features. A group's loss is what its error exceeds the best that the same number of
dimensions could do for it alone, here as it is expected on new rows. Benign tumours are the larger
group, but malignant ones vary more, and PCA serves them.
"""

import matplotlib.pyplot as plt

import fairspan as fs

patients = fs.datasets.tumours_by_diagnosis()
X, groups = patients.X, patients.sensitive_features
shown = {}
for d in range(1, 7):
    plain = fs.FairPCA(d, criterion="total_error", scale=True).fit(X, sensitive_features=groups)
    for group in fs.audit({"PCA": plain}, X, groups).models[0].groups:
        shown[group.group, d] = group

figure, axes = plt.subplots(layout="constrained")
for name, colour, shift in (("benign", "#d55e00", -0.08), ("malignant", "#0072b2", 0.08)):
    for d in range(1, 7):
        group = shown[name, d]
        loss, variance = group.expected.loss, group.total_variance / 100
        axes.plot([d + shift] * 2, [loss.low / variance, loss.high / variance], color=colour)
        label = name if d == 1 else None
        axes.plot(d + shift, loss.value / variance, "o", color=colour, label=label)
axes.axhline(0, color="0.6")
axes.set(xlabel="dimensions", ylabel="expected loss, % of the group's variance")
axes.legend()
plt.show()

# %%
# What the audit says of each group. Each state holds for both groups at once, at one number of
# dimensions.

for (name, d), group in shown.items():
    print(f"{d} dimensions, {name}: {group.state}")
assert all(shown["benign", d].state == "harmed" for d in range(2, 7))
assert all(shown["malignant", d].state == "cannot tell" for d in range(1, 7))
assert shown["malignant", 3].total_variance > 2 * shown["benign", 3].total_variance
