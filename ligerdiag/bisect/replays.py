"""The numbers of an axis' rows, and notes where they contradict the verdicts."""

from collections.abc import Sequence

from ligerdiag.bisect.draft import Draft
from ligerdiag.bisect.laboratory import Laboratory
from ligerdiag.bisect.options import BisectOptions
from ligerdiag.bisect.trial import Outcome
from ligerdiag.bisect.wording import has_disagreement
from ligerdiag.outcomes import Replay
from ligerdiag.replay.service import ReplayOptions

_BUG = "schedule and numbers cannot both be right, see DISAGREES: that is a bug in ligerdiag"


def replay_outcomes(
    laboratory: Laboratory, draft: Draft, outcomes: Sequence[Outcome], options: BisectOptions | None
) -> tuple[Replay | None, ...]:
    """Returns the numbers of each outcome within the options' bounds; None for all when they are not requested.

    A contradiction makes the draft unsettled.
    """
    if options is None or not options.replay:
        return (None,) * len(outcomes)
    how = ReplayOptions(bounds=options.bounds, timeout=options.timeout, jobs=options.jobs)
    replays = laboratory.replay(outcomes, how)
    if any(has_disagreement(outcome, replay) for outcome, replay in zip(outcomes, replays, strict=True)):
        draft.is_unsettled = True
        draft.notes += [_BUG] if _BUG not in draft.notes else []
    return replays
