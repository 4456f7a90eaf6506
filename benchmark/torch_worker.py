"""PyTorch's analysis of the pointers that Triton kernels write, for a Python that has torch and triton and nothing of ours.

Reads [{"ttir": text, "undeclared": [numbers]}] from its input, and prints for each kernel which of these parameters the
analysis calls written; null if it raises.
"""

import json
import sys
import tempfile

from torch._higher_order_ops import triton_kernel_wrap  # pyright: ignore[reportMissingImports]
from triton._C.libtriton import ir
from triton.backends.nvidia.compiler import nvidia


def main() -> None:
    """Analyses the kernels of the input."""
    answers = [try_list_written(kernel["ttir"], kernel["undeclared"]) for kernel in json.load(sys.stdin)]
    sys.stdout.write("\n" + json.dumps(answers) + "\n")


def try_list_written(ttir: str, numbers: list[int]) -> list[int] | None:
    """Returns the same as `list_written`; None if the analysis raises, upon which PyTorch takes all for written."""
    try:
        return list_written(ttir, numbers)
    except Exception:
        return None


def list_written(ttir: str, numbers: list[int]) -> list[int]:
    """Returns those of the numbered parameters that PyTorch's analysis calls written."""
    context = ir.context()
    ir.load_dialects(context)
    nvidia.load_dialects(context)
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        file.write(ttir)
        file.flush()
        module = ir.parse_mlir_module(file.name, context)
    functions = triton_kernel_wrap.ttir_to_functions(module)
    name = next(iter(functions))
    names = tuple(str(n) for n in range(1 + max([0, *numbers])))
    triton_kernel_wrap.analyze_kernel_access.reset()
    triton_kernel_wrap.get_tma_stores.reset()
    found = triton_kernel_wrap.analyze_kernel_access(functions, name, len(names), names, frozenset(numbers))
    written = {dependence.name for dependence in found.read_writes.writes}
    return [n for n in numbers if str(n) in written]


if __name__ == "__main__":
    main()
