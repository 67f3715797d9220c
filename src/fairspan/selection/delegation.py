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


class BestEstimatorMethods:
    """Methods and attributes of `best_estimator_`, there if it has them and refit was asked for."""

    refit: Any
    best_estimator_: Any

    @available_if(best_has("predict"))  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> Any:
        """Predictions of the best estimator for rows X, shape (n,) or (n, outputs)."""
        return self._best().predict(X)

    @available_if(best_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Class probabilities by the best estimator for rows X, shape (n, classes)."""
        return self._best().predict_proba(X)

    @available_if(best_has("predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of class probabilities by the best estimator, shape (n, classes)."""
        return self._best().predict_log_proba(X)

    @available_if(best_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Decision values of the best estimator for rows X, shape (n,) or (n, classes)."""
        return self._best().decision_function(X)

    @available_if(best_has("score_samples"))  # type: ignore[untyped-decorator]
    def score_samples(self, X: Any) -> Any:
        """Score of each row by the best estimator, shape (n,)."""
        return self._best().score_samples(X)

    @available_if(best_has("transform"))  # type: ignore[untyped-decorator]
    def transform(self, X: Any) -> Any:
        """Rows X transformed by the best estimator, shape (n, d)."""
        return self._best().transform(X)

    @available_if(best_has("inverse_transform"))  # type: ignore[untyped-decorator]
    def inverse_transform(self, X: Any) -> Any:
        """Transformed rows taken back by the best estimator, shape (n, p)."""
        return self._best().inverse_transform(X)

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

    def _best(self) -> Any:
        check_is_fitted(self)
        return self.best_estimator_

    def _attribute(self, name: str) -> Any:
        # An AttributeError, not scikit-learn's error for unfitted models, so that hasattr works.
        if "best_estimator_" not in vars(self):
            raise AttributeError(
                f"This search has no {name} yet. It has one once fitted with refit=True. Call fit."
            )
        return getattr(self.best_estimator_, name)
