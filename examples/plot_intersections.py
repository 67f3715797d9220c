"""
A projection that is fair by sex and by age can harm older women
================================================================

A projection that is fair to both sexes, or to both ages, can harm one intersection. The rows are
simulated: older women vary in other directions than all other groups, and the audit uses new rows.
Only groups passed to the fit are served, and then all groups share the loss.
"""

import matplotlib.pyplot as plt
import numpy as np

import fairspan as fs

sizes = {("women", "young"): 2000, ("women", "older"): 400, ("men", "young"): 2000}
sizes["men", "older"] = 2000
usual, other = np.sqrt([6, 4, 1, 1, 0.5, 0.5]), np.sqrt([1, 1, 6, 4, 0.5, 0.5])
older_women = ("women", "older")
groups = np.repeat(np.array(list(sizes)), list(sizes.values()), axis=0)
spread = np.where((groups == older_women).all(axis=1)[:, np.newaxis], other, usual)
rng = np.random.default_rng(0)
train, new = (rng.standard_normal(spread.shape) * spread for _ in range(2))

labels_by_fit = {"fair by sex": groups[:, 0], "fair by age": groups[:, 1], "fair by both": groups}
losses = {}
for name, labels in labels_by_fit.items():
    fair = fs.FairPCA(2).fit(train, sensitive_features=labels)
    model_audit = fs.audit({name: fair.components_}, new, groups).models[0]
    losses[name] = {group.group: group for group in model_audit.groups}
    for group in model_audit.groups:
        print(f"{name:12} {group.group}: {group.expected_loss_share.value:6.1%} {group.state}")

figure, axes = plt.subplots(layout="constrained")
hatches = ("", "///", "...")
for place, (name, group_audits) in enumerate(losses.items()):
    at = [group + 0.27 * (place - 1) for group in range(len(group_audits))]
    heights = [100 * group.expected_loss_share.value for group in group_audits.values()]
    axes.bar(at, heights, 0.25, label=name, hatch=hatches[place], edgecolor="white")
axes.set_xticks(range(4), [f"{sex},\n{age}" for sex, age in losses["fair by both"]])
axes.axhspan(0, 1, color="0.92", zorder=0, label="below materiality")
axes.set_ylabel("expected loss on new rows, % of the group's variance")
axes.legend()
plt.show()

# %%
# Both fits on one attribute harm older women most. As a group of the fit, they lose much less.

for name in ("fair by sex", "fair by age"):
    group_audits = losses[name]
    assert (
        max(group_audits, key=lambda group: group_audits[group].expected_loss.value) == older_women
    )
    assert group_audits[older_women].state == "harmed"
after = losses["fair by both"][older_women].expected_loss.high
assert after < losses["fair by sex"][older_women].expected_loss.low
