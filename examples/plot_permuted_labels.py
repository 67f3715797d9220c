"""
Permuted labels show losses on the rows and hardly ever harm
============================================================

A random sample of 100 of 569 patients forms a group, so no group is harmed. On the rows the group
always has a loss, because its own best components fit the chance variation of its rows. The
expected loss is far smaller, and the audit hardly ever reports harm.
"""

import matplotlib.pyplot as plt
import numpy as np

import fairspan as fs

patients = fs.datasets.load_breast_cancer_by_diagnosis()
plain = fs.FairPCA(3, criterion="total_error", scale=True)
labels = np.repeat(["drawn", "others"], [100, 469])
on_rows, expected, states = [], [], []
for seed in range(20):
    permuted = np.random.default_rng(seed).permutation(labels)
    plain.fit(patients.X, sensitive_features=permuted)
    group = fs.audit({"PCA": plain}, patients.X, permuted).models[0].groups[0]
    on_rows.append(group.observed_loss / group.observed_total_variance)
    expected.append(group.expected_loss.value / group.observed_total_variance)
    states.append(group.state)

figure, axes = plt.subplots(figsize=(6.4, 2.6), layout="constrained")
axes.plot(np.multiply(100, on_rows), range(20), "o", color="#d55e00", label="on the rows")
axes.plot(np.multiply(100, expected), range(20), "D", color="#0072b2", label="expected on new rows")
axes.axvline(0, color="0.6")
axes.set(xlabel="loss of the group, % of its variance", ylabel="draw", yticks=[])
figure.legend(loc="outside right upper", frameon=False)
plt.show()

# %%
# States of the group in 20 draws:

for state in sorted(set(states)):
    print(f"{state}: {states.count(state)}")
print(f"mean loss {np.mean(on_rows):.1%} on the rows, {np.mean(expected):.1%} expected")
assert min(on_rows) > 0
assert np.mean(expected) < np.mean(on_rows) / 3
assert states.count("harmed") <= 1
