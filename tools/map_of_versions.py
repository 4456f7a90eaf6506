"""Writes docs/versions.md and docs/versions.csv from sweeps: `python -m tools.map_of_versions FOLDER...
docs/versions.md`.

`make versions` runs the sweep of docs/versions.toml first. Its environments take a gigabyte or more each. Cells of
later folders replace those of earlier ones, so a second sweep may have only some versions.

A cell that could not be analysed says nothing about its release: the page names the reason, and no change. Consecutive
releases with the same result on all GPUs are one line; a release without any result is in no line. ≠ marks a cell that
differs from the nearest cell above it with a result.
"""

import csv
import io
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path

from ligerdiag.model.report import Status
from ligerdiag.sweep.campaign import SweepRow
from ligerdiag.sweep.sweep_table import name_column, read_parquet
from ligerdiag.toolchains.toolchain_table import find_spec

PACKAGES = ("jax", "jaxlib", "jax-triton", "triton")
HEAD = """# The map of versions

How does each release of JAX since 0.4.31 compile the same programs? A sweep ([sweep.md](sweep.md)) wrote this page, and
[versions.csv](versions.csv), which has every cell. It used no GPU and replayed nothing.

```sh not-run=toolchain
make versions      # runs the sweep of docs/versions.toml, and writes both
```

## Where verdicts change

Consecutive releases with the same verdicts are one line. Outputs that are not `fresh` are named, with their verdict;
`fresh` alone means that every output of the cell is fresh. `≠` marks a cell that differs from the nearest cell
above with a verdict, and `—` a cell that could not be analysed. Releases without any verdict are in no line.
JAX itself causes the `unknown` from 0.4.38 to 0.6.1: it moved readers of the overwritten value to the other side of
the call ([internals-runs.md](internals-runs.md#toolchains)).
"""
ABOUT = {
    "seed_flce[False": "It overwrites the logits without declaring it.",
    "seed_flce[True": "The same with the workaround of 2024, trivial operations.",
    "bf16_flce[False": "It overwrites the logits without declaring it, on inputs that are really in bf16.",
    "bf16_flce[True": "The same with the workaround of 2024.",
    "sharded_flce[vocabulary-hidden": "It overwrites the logits without declaring it, on eight devices.",
    "sharded_flce[vocabulary-trivial": "The same with the workaround of 2024.",
    "sharded_flce[vocabulary-aliased": "The same with the write declared.",
    "saved_residual": "The kernel overwrites a value that JAX saved for the backward pass.",
}
"""Beginning of a case id to a sentence."""
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")

type Cells = Mapping[tuple[str, str, str], SweepRow]
"""By case, GPU and toolchain."""


def main() -> None:
    """Reads the folders of sweeps; writes the page that the last argument names, and its CSV beside it."""
    *folders, page = map(Path, sys.argv[1:])
    cells: dict[tuple[str, str, str], SweepRow] = {}
    said: dict[tuple[str, str, str], str] = {}
    for folder in folders:
        for row in read_parquet(folder / "sweep.parquet"):
            cells[row.case, row.target, row.toolchain] = row
            said[row.case, row.target, row.toolchain] = "" if says(row) else read_last_words(folder, row)
    page.write_text("\n".join([HEAD, *list_lines(cells, said)]) + "\n", encoding="utf-8")
    page.with_suffix(".csv").write_text(render_csv(cells, said), encoding="utf-8")


def list_lines(cells: Cells, said: Mapping[tuple[str, str, str], str]) -> Iterator[str]:
    """Yields a table for each case, and one of the releases, in Markdown."""
    toolchains = sorted({name for _, _, name in cells}, key=read_version)
    targets = tuple(dict.fromkeys(target for _, target, _ in cells))
    for case in dict.fromkeys(case for case, _, _ in cells):
        yield f"### `{case}`\n"
        yield next((f"{text}\n" for start, text in ABOUT.items() if case.startswith(start)), "")
        yield f"| jax | {' | '.join(targets)} |"
        yield "|---|" + "---|" * len(targets)
        yield from list_periods(cells, case, targets, toolchains)
        yield ""
    yield "## The releases\n"
    yield (
        "The packages of each release, and why it has no result for a GPU or for all. From line to line jax, jaxlib and its"
        " plugin change; the other packages change with jax-triton. Each is a toolchain: `--toolchain jax-0.7.2`.\n"
    )
    yield f"| {' | '.join(PACKAGES)} | no result |"
    yield "|---|---|---|---|---|"
    for name in toolchains:
        versions = find_spec(name).packages
        reasons = "; ".join(list_reasons(cells, said, name, targets))
        yield f"| {' | '.join(versions[one] for one in PACKAGES)} | {reasons} |"


def list_periods(cells: Cells, case: str, targets: Sequence[str], toolchains: Sequence[str]) -> Iterator[str]:
    """Yields a line for each period in which a case's verdicts stay the same."""
    lines = [(name, [render(cells.get((case, target, name))) for target in targets]) for name in toolchains]
    known = [(name, texts) for name, texts in lines if set(texts) != {"—"}]
    before = ["—"] * len(targets)
    for texts, period in groupby(known, key=lambda line: line[1]):
        names = [name.removeprefix("jax-") for name, _ in period]
        marked = [
            f"≠ {text}" if "—" not in (text, old) and text != old else text
            for old, text in zip(before, texts, strict=True)
        ]
        before = [old if text == "—" else text for old, text in zip(before, texts, strict=True)]
        yield f"| {names[0] if len(names) == 1 else f'{names[0]} to {names[-1]}'} | {' | '.join(marked)} |"


def list_reasons(
    cells: Cells, said: Mapping[tuple[str, str, str], str], toolchain: str, targets: Sequence[str]
) -> Iterator[str]:
    """Yields each reason why cells of the toolchain have no result, with the GPUs and the number of cells."""
    reasons: dict[str, dict[str, int]] = {}
    for (_, target, name), row in cells.items():
        if name == toolchain and not says(row):
            found = reasons.setdefault(explain(row, said.get((row.case, target, name), "")), {})
            found[target] = found.get(target, 0) + 1
    total = len({case for case, _, _ in cells})
    for reason, counts in reasons.items():
        where = ", ".join(
            target if counts[target] == total else f"{target} ({counts[target]} of {total} cases)"
            for target in targets
            if target in counts
        )
        yield f"{'every GPU' if list(counts.values()) == [total] * len(targets) else where}: {reason}"


def says(row: SweepRow) -> bool:
    """Returns whether the cell has a result for the program."""
    return row.status not in {Status.ERROR, Status.NOT_CHECKED}


def render(row: SweepRow | None) -> str:
    """Returns the result of the cell: the outputs that are not fresh, or a dash."""
    if row is None or not says(row):
        return "—"
    wrong = [f"{name} {verdict}" for name, verdict in row.outputs.items() if verdict != "fresh"]
    return ", ".join(wrong) or "fresh"


def explain(row: SweepRow, last: str) -> str:
    """Returns the error in words that are the same for all cases. last: the last line that the worker wrote."""
    text = row.error.replace(f"the worker for case `{row.case}`", "the compilation")
    text = text.replace(f"case `{row.case}`", "the case")
    text = f"{text}: {last}" if last and last.rpartition(": ")[2] not in text else text
    return _ADDRESS.sub("0x…", " ".join(text.split())).replace("|", "\\|")


def read_last_words(folder: Path, row: SweepRow) -> str:
    """Returns the last line that the worker of the cell wrote; empty if no report has one."""
    cases = read_cases(folder / "reports" / f"{name_column(row.column)}.json")
    logs = [case["log_tail"] for case in cases if case["id"] == row.case]
    return next((lines[-1] for log in logs if (lines := log.strip().splitlines())), "")


@cache
def read_cases(report: Path) -> list[dict[str, str]]:
    """Returns the cases of a column's report."""
    return json.loads(report.read_text(encoding="utf-8"))["cases"] if report.exists() else []


def render_csv(cells: Cells, said: Mapping[tuple[str, str, str], str]) -> str:
    """Returns every cell: versions, case, GPU, verdicts, and the reason if there are none."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*PACKAGES, "case", "GPU", "verdict", "outputs", "rules", "why nothing is known"])
    for key, row in sorted(cells.items(), key=lambda item: read_version(item[0][2])):
        versions = find_spec(row.toolchain).packages
        outputs = "; ".join(f"{name} {verdict}" for name, verdict in row.outputs.items())
        why = "" if says(row) else explain(row, said.get(key, "")).replace("\\|", "|")
        cell = (row.case, row.target, row.verdict, outputs, " ".join(row.rules), why)
        writer.writerow([*(versions[one] for one in PACKAGES), *cell])
    return out.getvalue()


def read_version(toolchain: str) -> tuple[int, ...]:
    """Returns the release of jax as numbers, for sorting."""
    return tuple(map(int, find_spec(toolchain).packages["jax"].split(".")))


if __name__ == "__main__":
    main()
