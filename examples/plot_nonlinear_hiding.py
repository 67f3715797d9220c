"""
Equal means in a kernel's feature map do not hide the group from trees
======================================================================

After scikit-learn's ``Nystroem``, ``MeanParity()`` is nonlinear: the groups' means agree in the
feature map of a Gaussian kernel, exactly on the rows of the fit. Other kernels and maps may differ,
means of new rows agree up to chance, and a classifier may still predict the group.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fairspan as fs

people = fs.datasets.load_adult_by_sex()
train, test, women, new_women = train_test_split(
    people.X, people.sensitive_features == "Female", test_size=0.5, random_state=0
)
# The classifiers are trained on half of the new rows and tested on the other half.
half = np.arange(len(new_women)) % 2 == 0
classifiers = {
    "linear": LogisticRegression(),
    "trees": HistGradientBoostingClassifier(random_state=0),
}

measures, apart = {}, {}
for name, restriction in {"before": None, "after": fs.MeanParity()}.items():
    fair = fs.FairPCA(10, criterion="total_error", restriction=restriction)
    model = make_pipeline(StandardScaler(), Nystroem(n_components=300, random_state=0), fair)
    Z = model.fit_transform(train, fairpca__sensitive_features=women)
    apart[name] = np.abs(Z[women].mean(axis=0) - Z[~women].mean(axis=0)).max()
    new, mapped = model.transform(test), model[:-1].transform(test)
    captured = 1 + fair.score(mapped) / mapped.var(axis=0).sum()
    parts = new[half], new_women[half], new[~half], new_women[~half]
    measures[name] = {"MMD²": fs.metrics.mmd(*parts[2:], n_permutations=0)}
    print(f"{name:6} keeps {captured:.1%} of the map's variance, MMD² {measures[name]['MMD²']:.4f}")
    for kind, classifier in classifiers.items():
        scores = classifier.fit(*parts[:2]).predict_proba(parts[2])[:, 1]
        measures[name][kind] = roc_auc_score(parts[3], scores)
        leak = fs.metrics.leakage(*parts, classifier=classifier)
        print(f"{name:6} {kind:6} AUC {measures[name][kind]:.2f}, leakage {leak:.2f}")
assert apart["after"] < 1e-10 < apart["before"]
before, after = measures.values()
assert after["linear"] < 0.6 < 0.8 < min(before["linear"], after["trees"])
assert before["MMD²"] / 5 > after["MMD²"] > 0

# %%
# Equal averages prevent a linear classifier from predicting the group; an AUC of 0.5 is chance.

_, axes = plt.subplots(1, 2, layout="constrained", width_ratios=(1, 2))
for name, at in {"before": -0.2, "after": 0.2}.items():
    look = {"hatch": "///" if at > 0 else "", "edgecolor": "white", "label": name}
    axes[0].bar([at], [measures[name]["MMD²"]], 0.36, **look)
    axes[1].bar(np.arange(2) + at, [measures[name][kind] for kind in classifiers], 0.36, **look)
axes[0].set(xticks=[], title="MMD²")
axes[1].set(xticks=range(2), xticklabels=classifiers, ylim=(0.5, 1), title="AUC for the group")
axes[1].legend()
plt.show()
