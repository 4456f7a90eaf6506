"""Finds the versions of JAX and Triton between which the verdict changes: compiles the case with one toolchain after
another.
"""

from collections.abc import Sequence
from itertools import takewhile

from ligerdiag.bisect.search import AnswerChange, find_changes
from ligerdiag.bisect.trials import Draft, Outcome, Trial, TrialRunner, compare_outputs, make_row, replay_outcomes
from ligerdiag.errors import InputError
from ligerdiag.model.findings import Verdict
from ligerdiag.model.jobs import CaseSpec
from ligerdiag.report.comparisons import Axis, Bisection
from ligerdiag.run_options import BisectOptions
from ligerdiag.text import join_words
from ligerdiag.toolchains.environments import has_environment, locate_environment
from ligerdiag.toolchains.gpu_targets import Target
from ligerdiag.toolchains.toolchain import current_toolchain
from ligerdiag.toolchains.toolchain_table import DEFAULT, find_by_platform, find_spec, known_toolchains

PACKAGES = ("jax", "jaxlib", "jax-triton", "triton")
"""Packages whose versions the answer's table shows for each toolchain."""
LINEAR = 8
"""Largest number of toolchains for which all are tried, so that every change is found."""

type VerdictsByToolchain = tuple[tuple[str, Verdict], ...]


def bisect_toolchains(runner: TrialRunner, case: CaseSpec, target: Target, options: BisectOptions) -> Bisection:
    """Compiles a case with several toolchains. Returns the verdicts with each, and the toolchains between which they change.

    Raises InputError if a toolchain that the user named has no environment, or if fewer than two toolchains have an
    environment. With the option `create`, makes the missing environments instead.
    """
    names, missing = _choose(runner, options, target)
    draft = runner.open_draft(case, target.name, Axis.TOOLCHAINS, columns=PACKAGES)
    draft.toolchain = ""
    draft.notes += [f"toolchain `{name}` was not tried: {_explain_missing(name)}" for name in missing]
    outcomes: dict[int, Outcome] = {}

    def ask(positions: Sequence[int]) -> list[VerdictsByToolchain | None]:
        trials = [Trial(case=case, target=target, toolchain=names[position]) for position in positions]
        found = runner.try_all(trials)
        outcomes.update(zip(positions, found, strict=True))
        _write_rows(draft, runner, names, outcomes, options, replay=False)
        return [None if outcome.error else tuple(outcome.outputs.items()) for outcome in found]

    found = find_changes(len(names), ask, verify=len(names) <= LINEAR)
    steps = {change.after for change in found.changes}
    _write_rows(draft, runner, names, outcomes, options, replay=options.replay, answers=steps)
    draft.answers += [_describe_change(runner, names, outcomes, change) for change in found.changes]
    answered = [names[position] for position, answer in found.answers.items() if answer is not None]
    if not found.changes and answered:
        draft.answers.append(f"the verdicts are the same under {join_words([f'`{name}`' for name in answered])}")
    if not found.is_whole:
        draft.notes.append(
            f"a binary search tried {len(found.answers)} of {len(names)} toolchains: there may be other changes"
        )
    undecided = [names[position] for position, answer in found.answers.items() if answer is None]
    if undecided:
        draft.is_unsettled = True
        draft.notes.append(
            f"could not be analysed under {join_words([f'`{name}`' for name in undecided])}, see the table"
        )
    return runner.finish(draft)


def _choose(runner: TrialRunner, options: BisectOptions, target: Target) -> tuple[list[str], list[str]]:
    """Returns the names of the toolchains to try, in order, and of those left out because they have no environment. Unless
    the user names toolchains, they are those for the target's platform.
    """
    asked = list(dict.fromkeys(options.toolchains or list_usual(target, current_toolchain().versions["jax"])))
    missing = [name for name in asked if not options.create and not _is_there(runner, name)]
    names = [name for name in asked if name not in missing]
    if missing and (options.toolchains or len(names) < 2):
        commands = join_words([f"`ligerdiag toolchains create {name}`" for name in missing])
        noun = "toolchain" if len(missing) == 1 else "toolchains"
        raise InputError(
            f"{noun} {join_words([f'`{name}`' for name in missing])} must be made first, which takes some GB each:"
            f" {commands}, or `--create`"
        )
    if len(names) < 2:
        raise InputError(f"expected at least two toolchains but got {join_words([f'`{name}`' for name in names])}")
    return names, missing


def list_usual(target: Target, installed: str) -> list[str]:
    """Returns the names of all toolchains for the target's platform, that with the oldest jax first. installed: the
    version of the installed jax.
    """
    releases = {spec.name: spec.packages["jax"] for spec in known_toolchains() if spec.platform is target.platform}
    if find_by_platform(target.platform) == DEFAULT:
        releases[DEFAULT] = installed
    return sorted(releases, key=lambda name: _read_release(releases[name]))


def _read_release(version: str) -> tuple[int, ...]:
    """Returns the leading numbers of a version, such as (0, 12) for `0.12.dev3`, because anything may be installed."""
    return tuple(int(part) for part in takewhile(str.isdecimal, version.split(".")))


def _is_there(runner: TrialRunner, name: str) -> bool:
    return name == DEFAULT or has_environment(locate_environment(find_spec(name), runner.cache))


def _explain_missing(name: str) -> str:
    return f"`ligerdiag toolchains create {name}` makes it"


def _write_rows(
    draft: Draft,
    runner: TrialRunner,
    names: Sequence[str],
    outcomes: dict[int, Outcome],
    options: BisectOptions,
    *,
    replay: bool,
    answers: frozenset[int] | set[int] = frozenset(),
) -> None:
    """Writes into the draft (the bisection in progress) the rows of the toolchains that were tried so far, in the order
    of `names`. outcomes: from index in `names` to outcome. replay: whether to replay the outcomes as `options` say.
    answers: indices in `names` of the rows to mark as answers: the first toolchain after each change.
    """
    positions = sorted(outcomes)
    replays = replay_outcomes(runner, draft, [outcomes[p] for p in positions], options if replay else None)
    draft.rows[:] = [
        make_row(
            outcomes[position],
            names[position],
            replay=numbers,
            cells=_find_versions(runner, names[position]),
            is_answer=position in answers,
        )
        for position, numbers in zip(positions, replays, strict=True)
    ]


def _find_versions(runner: TrialRunner, name: str) -> dict[str, str]:
    versions = runner.find_toolchain(name).versions
    return {package: versions.get(package, "") for package in PACKAGES}


def _describe_change(
    runner: TrialRunner, names: Sequence[str], outcomes: dict[int, Outcome], change: AnswerChange
) -> str:
    before, after = outcomes[change.before], outcomes[change.after]
    changed = compare_outputs(before.outputs, after.outputs)
    old, new = (_find_versions(runner, names[position]) for position in (change.before, change.after))
    differing = [f"{name} {old[name]} -> {new[name]}" for name in PACKAGES if old[name] != new[name]]
    return (
        f"between `{names[change.before]}` and `{names[change.after]}`: {', '.join(changed) or 'other outputs'}"
        f" ({', '.join(differing) or 'the same versions'})"
    )
