"""Between which versions of JAX and Triton the verdict changes: the case under one toolchain after the other."""

from collections.abc import Sequence

from ligerdiag.bisect.search.laboratory import Laboratory
from ligerdiag.bisect.search.rows import compare_outputs, make_row, replay_outcomes
from ligerdiag.bisect.search.searches import AnswerChange, find_changes
from ligerdiag.bisect.search.trial import BisectOptions, Draft, Outcome, Trial
from ligerdiag.errors import InputError
from ligerdiag.judgement.answers import Axis, Bisection
from ligerdiag.model.findings import Verdict
from ligerdiag.model.jobs import CaseSpec
from ligerdiag.text import join_words
from ligerdiag.toolchains.environments import has_environment, locate_environment
from ligerdiag.toolchains.gpu_targets import Target
from ligerdiag.toolchains.toolchain_table import DEFAULT, find_spec, known_toolchains

PACKAGES = ("jax", "jaxlib", "jax-triton", "triton")
"""The packages by which a toolchain is described."""
LINEAR = 8
"""Up to this number of toolchains all are tried, and every change is found."""

type VerdictsByToolchain = tuple[tuple[str, Verdict], ...]


def bisect_toolchains(laboratory: Laboratory, case: CaseSpec, target: Target, options: BisectOptions) -> Bisection:
    """Returns the verdicts under each toolchain, and the steps between which they change.

    Raises InputError when fewer than two of the toolchains are there, or one that was named is not.
    """
    names, missing = _choose(laboratory, options)
    draft = laboratory.open_draft(case, target.name, Axis.TOOLCHAINS, columns=PACKAGES)
    draft.toolchain = ""
    draft.notes += [f"toolchain `{name}` was not looked at: {_explain_missing(name)}" for name in missing]
    outcomes: dict[int, Outcome] = {}

    def ask(positions: Sequence[int]) -> list[VerdictsByToolchain | None]:
        trials = [Trial(case=case, target=target, toolchain=names[position]) for position in positions]
        found = laboratory.try_all(trials)
        outcomes.update(zip(positions, found, strict=True))
        _write_rows(draft, laboratory, names, outcomes, options, replay=False)
        return [None if outcome.error else tuple(outcome.outputs.items()) for outcome in found]

    found = find_changes(len(names), ask, verify=len(names) <= LINEAR)
    steps = {change.after for change in found.changes}
    _write_rows(draft, laboratory, names, outcomes, options, replay=options.replay, answers=steps)
    draft.answers += [_describe_change(laboratory, names, outcomes, change) for change in found.changes]
    told = [names[position] for position, answer in found.answers.items() if answer is not None]
    if not found.changes and told:
        draft.answers.append(f"the verdicts are the same under {join_words([f'`{name}`' for name in told])}")
    if not found.is_whole:
        draft.notes.append(
            f"found by halving, {len(found.answers)} of {len(names)} toolchains were tried: there may be other changes"
        )
    untold = [names[position] for position, answer in found.answers.items() if answer is None]
    if untold:
        draft.is_unsettled = True
        draft.notes.append(f"could not be analysed under {join_words([f'`{name}`' for name in untold])}, see the table")
    return laboratory.finish(draft)


def _choose(laboratory: Laboratory, options: BisectOptions) -> tuple[list[str], list[str]]:
    """Returns the toolchains that are there, in order, and those that are not."""
    asked = list(dict.fromkeys(options.toolchains or (*(spec.name for spec in known_toolchains()), DEFAULT)))
    missing = [name for name in asked if not options.create and not _is_there(laboratory, name)]
    names = [name for name in asked if name not in missing]
    if missing and (options.toolchains or len(names) < 2):
        commands = join_words([f"`ligerdiag toolchains create {name}`" for name in missing])
        noun = "toolchain" if len(missing) == 1 else "toolchains"
        raise InputError(
            f"{noun} {join_words([f'`{name}`' for name in missing])} must be made first, which takes some GB each:"
            f" {commands}, or `--create`"
        )
    if len(names) < 2:
        raise InputError(f"expected two toolchains at least but got {join_words([f'`{name}`' for name in names])}")
    return names, missing


def _is_there(laboratory: Laboratory, name: str) -> bool:
    return name == DEFAULT or has_environment(locate_environment(find_spec(name), laboratory.cache))


def _explain_missing(name: str) -> str:
    return f"`ligerdiag toolchains create {name}` makes it"


def _write_rows(
    draft: Draft,
    laboratory: Laboratory,
    names: Sequence[str],
    outcomes: dict[int, Outcome],
    options: BisectOptions,
    *,
    replay: bool,
    answers: frozenset[int] | set[int] = frozenset(),
) -> None:
    """Writes the rows of what was tried so far, in the order of the list."""
    positions = sorted(outcomes)
    replays = replay_outcomes(laboratory, draft, [outcomes[p] for p in positions], options if replay else None)
    draft.rows[:] = [
        make_row(
            outcomes[position],
            names[position],
            replay=numbers,
            cells=_find_versions(laboratory, names[position]),
            is_answer=position in answers,
        )
        for position, numbers in zip(positions, replays, strict=True)
    ]


def _find_versions(laboratory: Laboratory, name: str) -> dict[str, str]:
    versions = laboratory.find_toolchain(name).versions
    return {package: versions.get(package, "") for package in PACKAGES}


def _describe_change(
    laboratory: Laboratory, names: Sequence[str], outcomes: dict[int, Outcome], change: AnswerChange
) -> str:
    before, after = outcomes[change.before], outcomes[change.after]
    changed = compare_outputs(before.outputs, after.outputs)
    old, new = (_find_versions(laboratory, names[position]) for position in (change.before, change.after))
    differing = [f"{name} {old[name]} -> {new[name]}" for name in PACKAGES if old[name] != new[name]]
    return (
        f"between `{names[change.before]}` and `{names[change.after]}`: {', '.join(changed) or 'other outputs'}"
        f" ({', '.join(differing) or 'the same versions'})"
    )
