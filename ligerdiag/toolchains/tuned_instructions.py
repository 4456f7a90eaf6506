"""Finds the instructions for which XLA's autotuner chooses an implementation.

Without a GPU, XLA chooses without measuring. A compile on a GPU may choose otherwise for these instructions, such as a call
of cuBLAS where the schedule has a Triton fusion. The schedule around them then differs: a call of cuBLAS takes no producers
into its fusion, needs a workspace, and gets other times in the schedule.
"""

import json
from typing import Any

from ligerdiag.hlo.custom_calls import CallTrait, find_traits
from ligerdiag.hlo.dataflow import list_running
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.model.tuning import TunedInstruction, TunedKind

_PRODUCTS = frozenset({"__triton_gemm", "__triton_nested_gemm_fusion", "__cudnn$fusion"})
"""The kinds of fusions (`fusion_backend_config.kind`) that compute a product of matrices."""


def list_tuned(module: HloModule) -> tuple[TunedInstruction, ...]:
    """Returns the products and convolutions of a module, in the order in which its computations list them. All other fusions
    are left out: for these, the autotuner chooses only how the code of the fusion works.
    """
    running = [one for computation in list_running(module) for one in computation.instructions]
    found = [(one.name, classify_tuned(one.proto.custom_call_target, _find_fusion_kind(one))) for one in running]
    return tuple(TunedInstruction(name=name, kind=kind) for name, kind in found if kind is not TunedKind.FUSION)


def classify_tuned(target: str, fusion_kind: str) -> TunedKind:
    """Returns the kind of an instruction for the autotuner: a product, a convolution, or any other fusion. target: the
    target of a custom call; '' for a fusion. fusion_kind: the `kind` in a fusion's backend config; '' if it has none.
    """
    traits = find_traits(target) if target else CallTrait.NONE
    if traits & CallTrait.TUNED_CONVOLUTION:
        return TunedKind.CONVOLUTION
    return TunedKind.PRODUCT if traits & CallTrait.TUNED_PRODUCT or fusion_kind in _PRODUCTS else TunedKind.FUSION


def _find_fusion_kind(instruction: HloInstruction) -> str:
    if instruction.opcode != "fusion" or b"fusion_backend_config" not in instruction.proto.backend_config:
        return ""
    try:
        config: Any = json.loads(instruction.proto.backend_config)
        return str(config["fusion_backend_config"]["kind"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
