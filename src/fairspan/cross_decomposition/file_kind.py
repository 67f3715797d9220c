"""Kind of the files of pairs of subspaces, known without reading them."""

from fairspan.storage.fields import FileKind

PAIRED_FILE = FileKind("paired_subspace", "a consistent pair of subspaces")
