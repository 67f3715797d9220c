"""The one sentence that answers each section of the audit page."""

from __future__ import annotations

from markupsafe import Markup

from fairspan.formatting.names import called, spoken
from fairspan.formatting.numbers import change, count, number, relative, share
from fairspan.report.page.lookups import (
    ALIKE,
    Facts,
    findings_about_the_answer,
    main_of,
    most_lost,
    plain_of,
    sharing_largest,
)

# What is said of an answer, by its status.
_PROVEN = {"optimal": "Proven", "unresolved": "Unresolved"}
_SMALLER = (
    " Divide it by its unit, standardize the features, or measure errors about the mean of all "
    "rows."
)


def named(group: str) -> Markup:
    """A group's name in quotes, apart from the direction of the text around it."""
    return Markup("\u2018<bdi>{}</bdi>\u2019").format(called(group))


def above_best(group: Facts) -> str:
    """By how much an error is above the best: relative where that can be said."""
    if group["best_error"] > 0 and group["excess_loss"] < 10 * group["best_error"]:
        return f"{relative(group['excess_loss'] / group['best_error'])} above"
    return f"{number(group['excess_loss'])} above"


def dimensions(facts: Facts) -> str:
    """How many there are, in words."""
    return count(facts["settings"]["n_components"], "dimension")


def summary(facts: Facts) -> Markup:
    """What PCA does to a group, and what repair changes and costs."""
    plain, main = plain_of(facts), main_of(facts)
    if plain["largest_loss"] == 0:
        return Markup("PCA with {} costs no group anything.").format(dimensions(facts))
    worst = most_lost(plain)
    text = Markup("PCA leaves {} with an error {} the best that {} can do for that group.").format(
        named(worst["group"]), above_best(worst), dimensions(facts)
    )
    return text if main is plain else text + " " + _repair(plain, main) + _who_pays(plain, main)


def _repair(plain: Facts, main: Facts) -> Markup:
    lost = main["largest_loss"] / plain["largest_loss"]
    verb = "leaves" if abs(lost - 1) < 5e-4 else "cuts" if lost < 1 else "raises"
    by = "" if verb == "leaves" else f" by {relative(abs(1 - lost))}"
    at = " as it is" if verb == "leaves" else ""
    name = spoken(main["name"])
    return Markup("{} {} the largest loss of a group{}{}{}.").format(
        name[0].upper() + name[1:], verb, at, by, _price(main["total_change"])
    )


def _who_pays(plain: Facts, main: Facts) -> Markup:
    """Whose loss rises for the repair."""
    both = list(zip(plain["groups"], main["groups"], strict=True))
    rises = [(a, b) for a, b in both if b["excess_loss"] > a["excess_loss"] * (1 + ALIKE)]
    if not rises:
        return Markup("")
    if len(rises) > 1:
        return Markup(" The loss rises for {} of {} groups.").format(len(rises), len(both))
    before, after = rises[0]
    return Markup(" The loss of {} rises from {} to {}.").format(
        named(after["group"]), number(before["excess_loss"]), number(after["excess_loss"])
    )


def _price(cost: float | None) -> str:
    if cost is None:
        return ""
    more = change(cost).removeprefix("+").replace("<", "less than")
    return (
        f" and costs {more} more error over all rows"
        if cost >= 0
        else (f" and changes the error over all rows by {more}")
    )


def data(facts: Facts) -> Markup:
    """How many rows, features and groups, and which group is smallest."""
    about = facts["data"]
    text = Markup("{} of {}, in {}").format(
        count(about["n_rows"], "row"),
        count(about["n_features"], "feature"),
        count(len(about["groups"]), "group"),
    )
    shares = [group["proportion"] for group in about["groups"]]
    if share(min(shares)) == share(max(shares)):
        return text + (" of one weight." if about["weighted"] else " of one size.")
    least = min(about["groups"], key=lambda group: group["proportion"])
    told = "; {}, of the least weight, has {} of it." if about["weighted"] else ""
    return text + Markup(told or "; the smallest, {}, is {} of them.").format(
        named(least["group"]), share(least["proportion"]).replace("<", "less than")
    )


def plain(facts: Facts) -> Markup:
    """Which group PCA reconstructs worst, and whether that may be chance."""
    model = plain_of(facts)
    high = max(model["groups"], key=lambda group: group["error"])
    low = min(model["groups"], key=lambda group: group["error"])
    if number(high["error"]) == number(low["error"]):
        return Markup("PCA reconstructs every group with an error of {}.").format(
            number(high["error"])
        )
    text = Markup("PCA reconstructs {} with an error of {} and {} with {}").format(
        named(high["group"]), number(high["error"]), named(low["group"]), number(low["error"])
    )
    gap = model["disparity"]
    if gap["low"] is None or gap["high"] is None:
        return text + "."
    if gap["low"] <= 0 <= gap["high"]:
        return text + Markup("; these rows do not show that the two differ.")
    return text + Markup("; more than chance explains.")


def criteria(facts: Facts) -> Markup:
    """Which criterion leaves the smallest loss, and which costs least."""
    others = [model for model in facts["models"] if not model["is_plain_pca"]]
    if not others:
        return Markup("No fair criterion was asked for.")
    if plain_of(facts)["largest_loss"] == 0:
        return Markup("No group loses anything under PCA, so there is nothing to repair.")
    least = min(others, key=lambda model: model["largest_loss"])
    text = Markup("Of {}, {} leaves the smallest largest loss, {} against {} under PCA").format(
        count(len(others), "fair criterion", "fair criteria"),
        spoken(least["name"]),
        number(least["largest_loss"]),
        number(plain_of(facts)["largest_loss"]),
    )
    cheapest = min(others, key=lambda model: model["total_error"])
    if cheapest is least or cheapest["total_change"] is None:
        return text + "."
    return text + Markup("; {} costs least over all rows, {}.").format(
        spoken(cheapest["name"]), change(cheapest["total_change"])
    )


def disparity(facts: Facts) -> Markup:
    """What the column of disparities holds."""
    first, second = plain_of(facts)["pair"]
    if len(facts["data"]["groups"]) == 2:
        return Markup("Disparity is the error of {} minus that of {}").format(
            named(second), named(first)
        )
    return Markup("Disparity is the difference in error between the two groups furthest apart")


def walk(facts: Facts) -> Markup:
    """What the slider walks along."""
    if facts["steps"]["walk"] == "frontier":
        if len(facts["steps"]["points"]) == 1:
            return Markup("The same dimensions are the best for both groups.")
        first, second = (named(group["group"]) for group in facts["data"]["groups"])
        return Markup(
            "Along the frontier, less error for {} is only to be had with more for {}."
        ).format(first, second)
    losses, looked = (facts["by_dimension"][key] for key in ("plain", "dimensions"))
    largest = [max(each) for each in losses["losses"]]
    at = largest.index(max(largest))
    # Of many features not every number of dimensions is looked at.
    is_all = len(looked) == facts["data"]["n_features"]
    if max(largest) == 0:
        some = "number" if is_all else f"of the {len(looked)} numbers"
        tail = "" if is_all else " that were looked at"
        return Markup("PCA costs no group anything, at any {} of dimensions{}.").format(some, tail)
    text = Markup("PCA costs a group most with {}{}: {}").format(
        count(looked[at], "dimension"),
        "" if is_all else f", of the {len(looked)} numbers that were looked at",
        number(largest[at]),
    )
    fair = facts["by_dimension"]["fair"]
    if fair["losses"][at] is None:
        return text + "."
    return text + Markup(", against {} under {}.").format(
        number(max(fair["losses"][at])), spoken(fair["criterion"])
    )


def findings(facts: Facts) -> Markup:
    """How many there are of each severity, about the rows, PCA and the main answer."""
    found, _ = findings_about_the_answer(facts)
    if not found:
        return Markup("There is nothing that the reader should be warned of.")
    warnings = sum(each["severity"] == "warning" for each in found)
    notes = len(found) - warnings
    parts = [count(n, what) for n, what in ((warnings, "warning"), (notes, "note")) if n]
    tail = " to act on" if not notes else ""
    return Markup("{}{}.").format(" and ".join(parts), tail)


def proof(facts: Facts) -> Markup:
    """What is proven of the main answer."""
    main = main_of(facts)
    certificate = main["certificate"]
    what = Markup("the objective of {}").format(spoken(main["name"]))
    # Unequal errors may lower it, and are not what was asked for.
    among = " with equal errors" if main["criterion"] == "equal_error" else ""
    if certificate["status"] == "optimal":
        return Markup("Proven: no projection to {}{} lowers {} by more than {}.").format(
            dimensions(facts),
            among,
            what,
            number(max(certificate["gap"], certificate["tolerance"])),
        )
    if certificate["gap"] is None:
        return Markup("Not proven: there is no bound on {}.").format(what)
    if certificate["status"] == "unresolved":
        return Markup(
            "Unresolved: no projection to {}{} lowers {} by more than {}, and double precision "
            "cannot tell more of these data{}.{}"
        ).format(
            dimensions(facts),
            among,
            what,
            number(certificate["gap"]),
            Markup(": {}").format(certificate["reason"]) if certificate["reason"] else "",
            _SMALLER if "column" in (certificate["reason"] or "") else "",
        )
    return Markup("Not proven: a projection to {}{} may lower {}, by at most {}.").format(
        dimensions(facts), among, what, number(certificate["gap"])
    )


def made(facts: Facts) -> Markup:
    """By which version, of what."""
    return Markup("Made by fairspan {}; the same rows and settings give this file again.").format(
        facts["made"]["fairspan"]
    )


def answers(facts: Facts) -> list[tuple[str, str, Markup]]:
    """The summary's questions, each with a figure and what it means."""
    plain, main = plain_of(facts), main_of(facts)
    worst, gap = most_lost(plain), main["certificate"]["gap"]
    loss = (
        "Largest loss under PCA",
        number(plain["largest_loss"]),
        Markup("{} the best for {}").format(above_best(worst), named(worst["group"])),
    )
    proof = (
        "Is that the best there is?",
        _PROVEN.get(main["certificate"]["status"], "Not proven"),
        Markup("no bound is known" if gap is None else "gap {}").format(number(gap)),
    )
    return [loss, proof] if main is plain else [loss, *_repaired(plain, main), proof]


def _repaired(plain: Facts, main: Facts) -> list[tuple[str, str, Markup]]:
    name = spoken(main["name"])
    return [
        (
            f"Under {name}",
            number(main["largest_loss"]),
            _of_whom(main),
        ),
        (
            "Change in error over all rows",
            change(main["total_change"]),
            Markup("{} under PCA, {} under {}").format(
                number(plain["total_error"]), number(main["total_error"]), name
            ),
        ),
    ]


def _of_whom(model: Facts) -> Markup:
    """Which groups have the largest loss."""
    shared = sharing_largest([group["excess_loss"] for group in model["groups"]])
    if len(shared) == 1:
        return Markup("for {}").format(named(most_lost(model)["group"]))
    return Markup("for both groups" if len(model["groups"]) == 2 else "for {} alike").format(
        count(len(shared), "group")
    )
