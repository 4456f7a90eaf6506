"""Generates docs/case-fields.md from the classes of a case file: `python -m tools.case_reference docs/case-fields.md
[--check]`.

The text of each field is in the docstring of its class; the examples are here, and a test runs them.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from inspect import cleandoc
from typing import Any

from ligerdiag.model.case import Arg, Case, Draw
from tools.generated_file import run_file_command

EXAMPLES: Mapping[tuple[type[Any], str], tuple[str, ...]] = {
    (Arg, "shape"): ("Arg(shape=(8, 128))", "Arg(shape=256)", "Arg(shape=())"),
    (Arg, "dtype"): ('Arg(shape=(8, 128), dtype="bfloat16")', "Arg(shape=(8,), dtype=jnp.int32)"),
    (Arg, "draw"): (
        "Arg(shape=(8, 128), draw=Draw(scale=0.02))",
        'Arg(shape=(8,), dtype="int32", draw=Draw(high=128))',
        'Arg(shape=(8,), dtype="int32", draw=lambda key, shape, dtype: jax.random.permutation(key, shape[0]))',
    ),
    (Arg, "partition"): (
        'Arg(shape=(8, 128), partition=("data", None))',
        'Arg(shape=(8, 128), partition=(("data", "model"),))',
    ),
    (Arg, "donate"): ("Arg(shape=(8, 128), donate=True)",),
    (Arg, "weak"): ("Arg(shape=(), weak=True)",),
    (Arg, "array"): ("Arg(shape=(8, 128), donate=True, array=1)",),
    (Arg, "memory"): ('Arg(shape=(8, 128), donate=True, memory="pinned_host")',),
    (Draw, "kind"): ('Draw(kind="uniform")', 'Draw(kind="zeros")'),
    (Draw, "seed"): ("Draw(seed=3)",),
    (Draw, "scale"): ("Draw(scale=0.02)", 'Draw(kind="bernoulli", scale=0.1)'),
    (Draw, "low"): ('Draw(kind="uniform", low=-1, high=1)',),
    (Draw, "high"): ('Draw(kind="randint", high=50304)',),
}
"""Expressions with each field, as a case file writes them."""
_HEAD = """# The fields of a case file

Generated from the code by `make docs`. A case file defines `CASE`, one `Case`, or `CASES`, a tuple of them;
[how-to-check-your-train-step.md](how-to-check-your-train-step.md) has whole files. An argument of a case is an `Arg`, or any
pytree of them:

```python
args = ({"weight": Arg(shape=(128, 512), dtype="bfloat16")}, Arg(shape=(8, 128), donate=True))
```

A `jax.ShapeDtypeStruct` counts as an `Arg`, a JAX or NumPy array as an `Arg` with the values of the array."""


def read_fields(described: type[Any]) -> dict[str, str]:
    """Returns the text on each field of a class from its docstring, in which each field has a paragraph that starts with
    its name and a colon. Raises KeyError for a field without one.
    """
    names = [one.name for one in fields(described)]
    head = re.compile(rf"^({'|'.join(names)}): ", re.MULTILINE)
    text = cleandoc(described.__doc__ or "")
    starts = [*head.finditer(text)]
    ends = [one.start() for one in starts[1:]] + [len(text)]
    found = {one[1]: " ".join(text[one.end() : end].split()) for one, end in zip(starts, ends, strict=True)}
    return {name: found[name] for name in names}


def describe_default(one: "Field[Any]") -> str:
    """Returns the default of a field as code; a dash if the field has none."""
    default: object = one.default if one.default_factory is MISSING else one.default_factory()
    if default is MISSING:
        return "–"
    return "`Draw()`" if default == Draw() else f"`{default!r}`"


def render_page() -> str:
    """Returns the page: for each class its purpose and a table of its fields, with examples."""
    parts = [_HEAD]
    for described in (Arg, Draw, Case):
        purpose = (described.__doc__ or "").split("\n\n")[0]
        parts += [f"## {described.__name__}", " ".join(purpose.split()), "\n".join(_list_rows(described))]
    return "\n\n".join(parts) + "\n"


def _list_rows(described: type[Any]) -> list[str]:
    texts = read_fields(described)
    shown = any(owner is described for owner, _ in EXAMPLES)
    rows = ["| field | default | meaning |" + (" examples |" if shown else "")]
    rows.append("|---|---|---|" + ("---|" if shown else ""))
    for one in fields(described):
        meaning = texts[one.name].replace("|", "\\|")
        row = f"| `{one.name}` | {describe_default(one)} | {meaning} |"
        rows.append(row + (f" {'<br>'.join(f'`{code}`' for code in EXAMPLES[described, one.name])} |" if shown else ""))
    return rows


def main(arguments: Sequence[str]) -> int:
    """Writes or checks the page; returns 0, 1 when it is stale, 2 for wrong usage."""
    return run_file_command(arguments, "tools.case_reference", render_page)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
