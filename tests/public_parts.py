"""The criteria, restrictions and solvers of the library by name, found among its public names."""

import fairspan
from fairspan.extending import Criterion, Restriction

_CLASSES = [each for each in map(fairspan.__getattr__, fairspan.__all__) if isinstance(each, type)]
CRITERIA = {each.name: each for each in _CLASSES if issubclass(each, Criterion)}
RESTRICTIONS = {each.name: each for each in _CLASSES if issubclass(each, Restriction)}
SOLVERS = {each.name: each for each in _CLASSES if hasattr(each, "solve")}
