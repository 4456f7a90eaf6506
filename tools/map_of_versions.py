"""Writes docs/versions.md from the table of a sweep: `python -m tools.map_of_versions TABLE docs/versions.md`.

`make versions` runs the sweep of docs/versions.toml first. Environments of other versions take a gigabyte or more each.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ligerdiag.model.report import Status
from ligerdiag.sweep.campaign import SweepRow
from ligerdiag.sweep.table import read_parquet
from ligerdiag.toolchains.catalogue import DEFAULT, find_spec
from ligerdiag.toolchains.toolchain import current_toolchain

HEAD = """# The map of versions

What does each generation of JAX and XLA make of the same programs? A sweep ([sweep.md](sweep.md)) of the versions
that `ligerdiag toolchains` knows wrote the table. It took no GPU, and nothing was replayed. Wrong outputs are named,
with their verdict. `fresh` stands for a row whose outputs are all right for a reason, `≠` for what differs from the
nearest version to its left that says anything.

```sh not-run=toolchain
make versions      # runs the sweep of docs/versions.toml, and writes this page
```

"""
TAIL = """
`seed_flce[False-…` overwrites the logits and tells nobody. `seed_flce[True-…` adds the workaround of 2024, and so
does `sharded_flce[…-trivial]`, on eight devices. `bf16_flce` does the same on inputs that are really in bf16.
`sharded_flce[…-aliased]` declares the write. In `saved_residual[exp-perplexity-hidden]` the kernel overwrites what
JAX saved for the backward pass.
"""


def main() -> None:
    """Reads the table that the first word names and writes the page that the second one names."""
    table, page = map(Path, sys.argv[1:])
    page.write_text(HEAD + "\n".join(list_lines(read_parquet(table))) + "\n" + TAIL, encoding="utf-8")


def list_lines(rows: Sequence[SweepRow]) -> Iterator[str]:
    """Yields the table, in Markdown."""
    toolchains = tuple(dict.fromkeys(row.toolchain for row in rows))
    versions = [describe(name) for name in toolchains]
    yield f"| case | GPU | {' | '.join(versions)} |"
    yield "|---|---|" + "---|" * len(toolchains)
    cells = {(row.case, row.target, row.toolchain): row for row in rows}
    for case, target in dict.fromkeys((row.case, row.target) for row in rows):
        told, said = "", list[str]()
        for name in toolchains:
            text = render(cells[case, target, name])
            is_known = not text.startswith("—")
            said.append(f"≠ {text}" if is_known and told and text != told else text)
            told = text if is_known else told
        yield f"| `{case}` | {target} | {' | '.join(said)} |"


def describe(toolchain: str) -> str:
    """Returns its versions, short."""
    versions = current_toolchain().versions if toolchain == DEFAULT else find_spec(toolchain).packages
    return f"jax {versions['jax']}, jax-triton {versions['jax-triton']}, triton {versions['triton']}"


def render(row: SweepRow) -> str:
    """Returns what the cell says: the outputs that are not fresh, or why nothing is known."""
    if row.status in {Status.ERROR, Status.NOT_CHECKED}:
        why = row.error.replace(f"the worker for case `{row.case}` ", "").partition(" by signal")[0].partition(":")[0]
        return f"— {why[:40]}".rstrip()
    wrong = [f"{name} {verdict}" for name, verdict in row.outputs.items() if verdict != "fresh"]
    return ", ".join(wrong) or "fresh"


if __name__ == "__main__":
    main()
