"""Computes the title of the index: how many cases are wrong and in which way, in one sentence.

Each case counts once, by the worst verdict in the headline of its page. Cases that are wrong, unknown or right by luck are
always counted, so that no title looks better than its worst page.
"""

from collections import Counter
from collections.abc import Iterable

from ligerdiag.model.report import Status
from ligerdiag.report.html.headline import Headline
from ligerdiag.text import count_of, join_words

_STATUSES = {
    Status.DISAGREEMENT: ("has a verdict that its numbers contradict", "have verdicts that their numbers contradict"),
    Status.ERROR: ("could not be analysed", "could not be analysed"),
    Status.NOT_CHECKED: ("was not run", "were not run"),
}
"""Statuses that take precedence over the sign of the headline, with the predicate for one case and for several."""
_SIGNS = {
    "stale": ("reads stale values", "read stale values"),
    "clobbered": ("reads overwritten values", "read overwritten values"),
    "error": ("has an error", "have errors"),
    "unknown": ("could not be decided", "could not be decided"),
    "warning": ("has a warning", "have warnings"),
    "latent": ("is right by luck", "are right by luck"),
}
_GOOD = {
    "nothing": ("has nothing to check", "have nothing to check"),
    "fresh": ("reads the intended values", "read the intended values"),
}
_ORDER = (
    _SIGNS["stale"],
    _SIGNS["clobbered"],
    _STATUSES[Status.DISAGREEMENT],
    _SIGNS["error"],
    _STATUSES[Status.ERROR],
    _SIGNS["unknown"],
    _STATUSES[Status.NOT_CHECKED],
    _SIGNS["warning"],
    _SIGNS["latent"],
    _GOOD["nothing"],
    _GOOD["fresh"],
)


def compute_answer(cases: Iterable[tuple[Status, Headline]], noun: str) -> str:
    """Returns a sentence such as `2 of 7 cases read stale values, 1 could not be decided`. noun: the word for a case."""
    predicates = [
        _STATUSES.get(status) or _SIGNS.get(headline.sign) or _GOOD[headline.sign] for status, headline in cases
    ]
    total, counts = len(predicates), Counter(predicates)
    if not total:
        return "nothing was checked"
    bad = [one for one in _ORDER if counts[one] and one not in _GOOD.values()]
    shown = bad or [one for one in _ORDER if counts[one]]
    (one, many), rest = shown[0], shown[1:]
    number = counts[shown[0]]
    if number == total:
        subject = f"the {noun}" if total == 1 else f"both {noun}s" if total == 2 else f"all {total} {noun}s"
    else:
        subject = f"{number} of {count_of(total, noun)}"
    first = f"{subject} {one if number == 1 else many}"
    return join_words([first, *(f"{counts[way]} {way[0] if counts[way] == 1 else way[1]}" for way in rest)])
