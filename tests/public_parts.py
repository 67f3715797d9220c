"""The criteria, restrictions and solvers of the library by name, found among its public names."""

import fairspan
from fairspan.extending import Criterion, Restriction

_CLASSES = [part for part in map(fairspan.__getattr__, fairspan.__all__) if isinstance(part, type)]
CRITERIA = {part.name: part for part in _CLASSES if issubclass(part, Criterion)}
RESTRICTIONS = {part.name: part for part in _CLASSES if issubclass(part, Restriction)}
SOLVERS = {part.name: part for part in _CLASSES if hasattr(part, "solve")}
