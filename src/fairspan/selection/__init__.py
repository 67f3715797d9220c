"""Choosing settings by a bandit: UCB1, and a search over settings that spends its fits with it."""

from fairspan.selection.search import UCB1SearchCV
from fairspan.selection.ucb1 import UCB1

__all__ = ["UCB1", "UCB1SearchCV"]
