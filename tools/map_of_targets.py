"""Writes the tables of docs/targets.md from reports of `ligerdiag check --format json`: `python -m tools.map_of_targets
REPORT... docs/targets.md`.

`make targets` makes the reports first, without a GPU. The page is generated from the heading `GENERATED` on: the targets
that come with ligerdiag, and a section for each toolchain of the reports with the verdicts on each target, and how many
replays agree with their verdicts. Programs that are fresh on every target have no column, and programs with the same
verdicts share one.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ligerdiag.codec import Json, as_object, parse_object, read_list, read_str, read_str_map
from ligerdiag.text import count_of, join_words
from ligerdiag.toolchains.gpu_targets import list_targets
from ligerdiag.toolchains.toolchain import Platform
from ligerdiag.toolchains.toolchain_table import known_toolchains

GENERATED = "## The targets\n"
"""The heading of the page from which on it is generated."""


def main() -> None:
    """Reads the reports, and writes the tables of the page that the last argument names."""
    *reports, page = map(Path, sys.argv[1:])
    read = [parse_object(report.read_text(encoding="utf-8")) for report in reports]
    head = page.read_text(encoding="utf-8").partition(GENERATED)[0]
    lines = [GENERATED, *list_target_lines()]
    for toolchain in dict.fromkeys(read_str(report, "toolchain") for report in read):
        lines += ["", *list_verdict_lines([one for one in read if read_str(one, "toolchain") == toolchain])]
    page.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


def list_target_lines() -> Iterator[str]:
    """Yields a table of the targets, and a list of those for which a toolchain's compilers abort, in Markdown."""
    targets = list_targets()
    yield "| target | GPU | generation | architecture | memory | cores |"
    yield "|---|---|---|---|---|---|"
    for one in targets:
        model = one.model if one.model.startswith((one.vendor, "Tesla")) else f"{one.vendor} {one.model}"
        words = (one.name, model, one.generation, one.architecture, f"{one.memory / 2**30:.0f} GiB", str(one.cores))
        yield f"| {' | '.join(words)} |"
    yield ""
    for spec in known_toolchains():
        if spec.fails_for:
            names = join_words([f"`{one.name}`" for one in targets if one.generation in spec.fails_for])
            yield f"- The compilers of toolchain `{spec.name}` abort for {names}, which are newer than they are."


def list_verdict_lines(reports: Sequence[Json]) -> Iterator[str]:
    """Yields the section on the verdicts of one toolchain: which programs differ, in a table of targets, and what replay
    says of them.
    """
    cells: dict[str, dict[str, str]] = {}
    said: Counter[str] = Counter()
    cut = 0
    for case in (as_object(one, "case") for report in reports for one in read_list(report, "cases")):
        cells.setdefault(read_str(case, "id"), {})[read_str(case, "target")] = render_cell(case)
        if case["replay"] is not None:
            replay = as_object(case["replay"], "replay")
            said[describe_replay(replay, has_disagreement=bool(case["disagreements"]))] += 1
            cut += bool(replay["cut"])
    targets = tuple(dict.fromkeys(target for row in cells.values() for target in row))
    fresh = [case for case, row in cells.items() if [row.get(target) for target in targets] == ["fresh"] * len(targets)]
    columns = join_columns({case: row for case, row in cells.items() if case not in fresh}, targets)
    is_amd = any(one.name in targets and one.platform is Platform.ROCM for one in list_targets())
    yield "## Verdicts for AMD\n" if is_amd else "## Verdicts\n"
    yield (
        "The programs of https://github.com/phlippe/liger_kernels, with and without the workaround of 2024, and their kernel"
        f" alone, by toolchain `{read_str(reports[0], 'toolchain')}`. `make targets` writes this.\n"
    )
    total = sum(map(len, cells.values()))
    confirmed = ", and no AMD GPU has confirmed one" if is_amd else ""
    yield (
        f"{count_of(total, 'cell')} of {count_of(len(cells), 'program')} on {count_of(len(targets), 'target')}, none of them"
        f" on a GPU{confirmed}. By replay on numbers, {cut} times with some iterations of a loop alone:"
        f" {', '.join(f'{number} {words}' for words, number in said.most_common())}.\n"
    )
    yield (
        "The table names the outputs that are not fresh. Programs with the same verdicts share a column; those without a"
        f" column are fresh on every target: {', '.join(f'`{case}`' for case in fresh)}.\n"
    )
    for number, (cases, _) in enumerate(columns, 1):
        yield f"- **{number}**: {', '.join(f'`{case}`' for case in cases)}"
    yield ""
    yield f"| target | {' | '.join(str(number) for number, _ in enumerate(columns, 1))} |"
    yield "|---|" + "---|" * len(columns)
    for target in targets:
        yield f"| {target} | {' | '.join(row.get(target, '—') for _, row in columns)} |"


def join_columns(
    cells: Mapping[str, Mapping[str, str]], targets: Sequence[str]
) -> list[tuple[list[str], Mapping[str, str]]]:
    """Returns the programs with the same verdicts on every target, and these verdicts by target."""
    joined: dict[tuple[str, ...], list[str]] = {}
    for case, row in cells.items():
        joined.setdefault(tuple(row.get(target, "—") for target in targets), []).append(case)
    return [(cases, dict(zip(targets, key, strict=True))) for key, cases in joined.items()]


def render_cell(case: Json) -> str:
    """Returns the outputs of a case that are not fresh, with their verdicts, or `fresh`; a dash without any verdict."""
    outputs = read_str_map(case, "outputs")
    if not outputs or case["error"]:
        return "—"
    return ", ".join(f"{name} {verdict}" for name, verdict in outputs.items() if verdict != "fresh") or "fresh"


def describe_replay(replay: Json, *, has_disagreement: bool) -> str:
    """Returns what a replay says of the verdicts on its case: `agree`, `disagree`, `undecided` if it decides no output,
    `lossy` if it decides and an output lost precision, or its state if it was not done.
    """
    if read_str(replay, "state") != "done":
        return read_str(replay, "state")
    if has_disagreement:
        return "disagree"
    outputs = as_object(replay["outputs"], "outputs")
    words = {read_str(as_object(one, "output"), "attribution") for one in outputs.values()} - {"undecided"}
    return "undecided" if not words else "lossy" if "lossy" in words else "agree"


if __name__ == "__main__":
    main()
