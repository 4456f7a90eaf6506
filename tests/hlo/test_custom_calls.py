"""The table of custom-call targets is the only place that names them."""

import ast
import re
from pathlib import Path

import pytest

import ligerdiag
from ligerdiag.hlo.custom_calls import ALLOCATES, PARTITIONED, CallTrait, find_traits, has_trait, load_groups

PACKAGE = Path(ligerdiag.__file__).parent
NAMED = {target for group in load_groups() for target in group.get("targets", ())} - {ALLOCATES, PARTITIONED}


@pytest.mark.parametrize(
    ("target", "traits"),
    [
        ("triton_kernel_call", CallTrait.JAX_TRITON),
        ("__gpu$xla.gpu.triton", CallTrait.CARRIES_TRITON),
        ("xla.sdy.GlobalToLocalShape", CallTrait.SHARD_EDGE),
        ("cusolver_potrf_ffi", CallTrait.READS_ONLY),
        ("__cudnn$fmhaSoftmax", CallTrait.READS_ONLY),
        ("__cudnn$of_the_future", CallTrait.MADE_BY_XLA),
        ("stable_mosaic_gpu", CallTrait.KERNEL_BY_NAME),
    ],
)
def test_a_target_has_the_traits_of_each_group_that_names_it(target: str, traits: CallTrait) -> None:
    assert has_trait(target, traits)


def test_a_target_in_no_group_has_no_trait() -> None:
    assert find_traits("my_ffi_target") == CallTrait.NONE
    assert find_traits("my__cublas$gemm") == CallTrait.NONE


def test_only_the_table_names_targets() -> None:
    quoted = re.compile(f"[\"']({'|'.join(map(re.escape, sorted(NAMED)))})[\"']")
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {node.value}"
        for path in PACKAGE.rglob("*.py")
        if quoted.search(text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and node.value in NAMED
    ]
    # the name of JAX's primitive, which is not a target
    others = ("compile/lowering/kernel_calls.py:", "reduce/jaxpr_reader.py:")
    assert [place for place in found if not place.startswith(others)] == []
