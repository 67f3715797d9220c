"""
PCA harms pictures of vowels beyond chance with two to eight dimensions
=======================================================================

20,000 pictures of letters, 16 features. A group's loss is what its error exceeds the best that the
same number of dimensions could do for it alone, here as it is expected on new rows. PCA serves the
consonants, which are three in four.
"""

import matplotlib.pyplot as plt

import fairspan as fs
from reproduction.data import load

letters = load("letter")
X, vowel = letters.X, letters.sensitive_features
dimensions = range(1, 9)
shown = {}
for d in dimensions:
    plain = fs.FairPCA(d, criterion="total_error", scale=True).fit(X, sensitive_features=vowel)
    for group in fs.audit({"PCA": plain}, X, vowel).models[0].groups:
        shown[group.group, d] = group

figure, axes = plt.subplots(layout="constrained")
looks = ("yes", "vowels", "#d55e00", -0.05), ("no", "consonants", "#0072b2", 0.05)
for name, label, colour, shift in looks:
    for d in dimensions:
        loss, variance = shown[name, d].expected_loss, shown[name, d].total_variance_here / 100
        axes.plot([d + shift] * 2, [loss.low / variance, loss.high / variance], color=colour)
        shown_once = label if d == 1 else None
        axes.plot(d + shift, loss.value / variance, "o", color=colour, label=shown_once)
axes.set(xlabel="dimensions", ylabel="expected loss, % of the group's variance")
axes.legend()
plt.show()

# %%
# What the audit says of each group. A state holds for both groups at once, at one number of
# dimensions.

for d in dimensions:
    print(f"{d} dimensions: vowels {shown['yes', d].state}, consonants {shown['no', d].state}")
assert all(shown["yes", d].state == "harmed" for d in range(2, 9))
assert all(shown["no", d].state == "minor" for d in dimensions)
