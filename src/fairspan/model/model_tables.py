"""Table of a fitted subspace, for notebooks."""

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.certificate_table import bound_text
from fairspan.formatting.table import Table
from fairspan.rows.labels import table_name


def group_table(certificate: Certificate, caption: str) -> Table:
    """Table of errors and losses by group, with a note on the objective and its bound."""
    rows = [
        (table_name(group), f"{count:,}", f"{error:.4g}", f"{loss:.4g}")
        for group, count, error, loss in zip(
            certificate.groups,
            certificate.counts,
            certificate.errors.tolist(),
            certificate.losses.tolist(),
            strict=True,
        )
    ]
    note = (
        f"{certificate.status_text}: {certificate.criterion.name} is {certificate.objective:.6g}, "
        f"lower bound: {bound_text(certificate.lower_bound)} "
        f"(by {certificate.solver}, fairspan {certificate.version})"
    )
    return Table.from_texts(caption, ("group", "rows", "error", "loss"), rows, notes=(note,))
