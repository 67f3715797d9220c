"""Registration of the classes that lower layers use by name (:mod:`fairspan.class_loaders`).

Each function imports one class when it is called, so that `import fairspan` waits for none of them.
"""

from fairspan.class_loaders import register_loaders


def register_classes() -> None:
    """Register adapted models, the displays and pages of results, and the solvers."""
    register_loaders("model", {"adapted": _adapted_model})
    register_loaders(
        "result display",
        {"audit": _audit_display, "frontier": _frontier_display, "monitor": _monitor_display},
    )
    register_loaders("result page", {"history": _history_page})
    register_loaders(
        "solver",
        {
            "auto": _auto,
            "boundary": _boundary_search,
            "dual_newton": _dual_newton,
            "multiplicative": _multiplicative_weights,
            "semidefinite": _semidefinite,
            "riemannian": _riemannian,
        },
    )


def _adapted_model() -> type[object]:
    from fairspan.model.adapted_model import AdaptedModel

    return AdaptedModel


def _audit_display() -> type[object]:
    from fairspan.displays.audit_display import AuditDisplay

    return AuditDisplay


def _frontier_display() -> type[object]:
    from fairspan.displays.frontier_display import FrontierDisplay

    return FrontierDisplay


def _monitor_display() -> type[object]:
    from fairspan.displays.monitor_display import MonitorDisplay

    return MonitorDisplay


def _history_page() -> type[object]:
    from fairspan.report.required_packages import check_required_packages

    # Before the page is imported, which imports them.
    check_required_packages("A page of looks")
    from fairspan.report.history_page import HistoryPage

    return HistoryPage


def _auto() -> type[object]:
    from fairspan.solvers.auto import Auto

    return Auto


def _boundary_search() -> type[object]:
    from fairspan.solvers.two_groups.boundary_search import BoundarySearch

    return BoundarySearch


def _dual_newton() -> type[object]:
    from fairspan.solvers.many_groups.dual_newton import DualNewton

    return DualNewton


def _multiplicative_weights() -> type[object]:
    from fairspan.solvers.published.multiplicative_weights import MultiplicativeWeights

    return MultiplicativeWeights


def _semidefinite() -> type[object]:
    from fairspan.solvers.published.semidefinite import Semidefinite

    return Semidefinite


def _riemannian() -> type[object]:
    from fairspan.solvers.published.riemannian import RiemannianSubgradient

    return RiemannianSubgradient
