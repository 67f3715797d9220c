"""Hyperparameter selection by a bandit: the policy UCB1, and a search that uses it."""

from fairspan.selection.bandit import UCB1
from fairspan.selection.search import UCB1SearchCV

__all__ = ["UCB1", "UCB1SearchCV"]
