"""Recognises functions that only pass their arguments on to `triton_call`. A cure then changes the calls of such a function,
and not the call of `triton_call` inside it.

```python
def run(kernel, out, *arrays, **options):
    return jt.triton_call(*arrays, kernel=kernel, out_shape=out, **options)


loss = run(loss_kernel, row, logits, targets, grid=(8,), COLUMNS=64)
```

Operands, outputs and further keywords pass through unchanged, so the call of `run` is a kernel's call like any other.
"""

from dataclasses import dataclass

import libcst as cst

from ligerdiag.fix.source_file import SourceFile, get_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarding:
    """How a function passes its parameters on to the `triton_call` in it, and does nothing else."""

    name: str
    """Name of the function."""
    skipped: int
    """Number of the function's positional parameters that come before the operands."""
    outputs: str
    """Name of the parameter that declares the outputs."""
    outputs_place: int | None
    """Position of the parameter `outputs` if it comes before the operands; None if it is passed by keyword."""


def find_forwarding(file: SourceFile, call: cst.Call, output_keywords: tuple[str, ...]) -> Forwarding | None:
    """Returns how the function around a `triton_call` passes its own arguments on to this call.

    Returns None unless the function passes its `*operands`, its outputs and its `**keywords` on unchanged, and returns
    the result of the call.
    """
    function = file.find_function(call)
    if function is None or function.params.posonly_params:
        return None
    star, rest = function.params.star_arg, function.params.star_kwarg
    given = [one for one in call.args if one.keyword is None and one.star != "**"]
    spread = [one for one in call.args if one.star == "**"]
    if not isinstance(star, cst.Param) or rest is None or len(given) != 1 or len(spread) != 1:
        return None
    if given[0].star != "*" or not _is_name(given[0].value, star.name.value):
        return None
    if not _is_name(spread[0].value, rest.name.value) or not _is_returned(file, function, call):
        return None
    declared = [one for one in call.args if one.keyword is not None and one.keyword.value in output_keywords]
    before = [one.name.value for one in function.params.params]
    by_keyword = [one.name.value for one in function.params.kwonly_params]
    outputs = declared[0].value.value if declared and isinstance(declared[0].value, cst.Name) else ""
    if not declared:
        return Forwarding(name=function.name.value, skipped=len(before), outputs="", outputs_place=None)
    if outputs not in (*before, *by_keyword):
        return None
    return Forwarding(
        name=function.name.value,
        skipped=len(before),
        outputs=outputs,
        outputs_place=before.index(outputs) if outputs in before else None,
    )


def _is_name(value: cst.BaseExpression, name: str) -> bool:
    return isinstance(value, cst.Name) and value.value == name


def _is_returned(file: SourceFile, function: cst.FunctionDef, call: cst.Call) -> bool:
    returns = [one for one in file.find(cst.Return, function) if file.find_function(one) is function]
    if len(returns) != 1 or returns[0].value is None:
        return False
    if returns[0].value is call:
        return True
    assigned = [one for one in file.find(cst.Assign, function) if one.value is call]
    names = [get_name(one.targets[0].target) for one in assigned if len(one.targets) == 1]
    uses = [one for one in file.find(cst.Name, function) if names and one.value == names[0]]
    return bool(names) and names[0] != "" and _is_name(returns[0].value, names[0]) and len(uses) == 2
