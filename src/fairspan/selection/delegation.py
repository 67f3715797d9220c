"""The methods of a search that its best estimator answers, as in scikit-learn's own searches."""

from collections.abc import Callable
from typing import Any

from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted


def best_has(name: str) -> Callable[[Any], bool]:
    """Whether a method can be delegated: to the best estimator or, before fit, to the one given."""

    def check(search: Any) -> bool:
        if not search.refit:
            raise AttributeError(
                f"This search was made with refit=False, so it has no best estimator for {name}. "
                "Allowed are searches with refit=True. Refit one with best_params_."
            )
        getattr(getattr(search, "best_estimator_", search.estimator), name)
        return True

    return check


def _of_best(name: str, summary: str) -> Any:
    """A method of rows X that the best estimator answers, there if it has such a method."""

    def method(self: Any, X: Any) -> Any:
        check_is_fitted(self)
        return getattr(self.best_estimator_, name)(X)

    method.__name__, method.__doc__ = name, summary
    method.__qualname__ = f"BestEstimatorMethods.{name}"
    return available_if(best_has(name))(method)


class BestEstimatorMethods:
    """Methods and attributes of `best_estimator_`, there if it has them and refit was asked for."""

    refit: Any
    best_estimator_: Any

    predict = _of_best(
        "predict", "Predictions of the best estimator for rows X, shape (n,) or (n, outputs)."
    )
    predict_proba = _of_best(
        "predict_proba", "Class probabilities by the best estimator, shape (n, classes)."
    )
    predict_log_proba = _of_best(
        "predict_log_proba",
        "Logarithms of class probabilities by the best estimator, shape (n, classes).",
    )
    decision_function = _of_best(
        "decision_function",
        "Decision values of the best estimator for rows X, shape (n,) or (n, classes).",
    )
    score_samples = _of_best(
        "score_samples", "Score of each row by the best estimator, shape (n,)."
    )
    transform = _of_best("transform", "Rows X transformed by the best estimator, shape (n, d).")
    inverse_transform = _of_best(
        "inverse_transform", "Transformed rows taken back by the best estimator, shape (n, p)."
    )

    @property
    def classes_(self) -> Any:
        """Classes of the best estimator, where it is a classifier."""
        return self._attribute("classes_")

    @property
    def n_features_in_(self) -> Any:
        """Number of features that the best estimator was fitted on."""
        return self._attribute("n_features_in_")

    @property
    def feature_names_in_(self) -> Any:
        """Names of these features, where X had column names."""
        return self._attribute("feature_names_in_")

    def _attribute(self, name: str) -> Any:
        # An AttributeError, not scikit-learn's error for unfitted models, so that hasattr works.
        if "best_estimator_" not in vars(self):
            raise AttributeError(
                f"This search has no {name} yet. It has one once fitted with refit=True. Call fit."
            )
        return getattr(self.best_estimator_, name)
