"""jax-triton's compile of a Triton kernel for an AMD GPU, which needs neither a GPU nor ROCm: `KeyError: 'num_ctas'`.

`python docs/reports/jax_triton_hip_metadata.py` with jax-triton 0.4.1 and triton 3.9.0
"""

from typing import Any

import jax_triton.triton_lib as library
import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend


@triton.jit
def double_kernel(x_ptr, SIZE: tl.constexpr):
    """Doubles x in place."""
    place = tl.arange(0, SIZE)
    tl.store(x_ptr + place, 2 * tl.load(x_ptr + place))


def compile_for(architecture: str) -> Any:
    """Returns jax-triton's result for the kernel, up to the machine code."""
    target = GPUTarget("hip", architecture, 64)
    backend: Any = make_backend(target)
    options = backend.parse_options({})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    source = ASTSource(double_kernel, {"x_ptr": "*fp32", "SIZE": "constexpr"}, {"SIZE": 256})
    functions, modules = backend.get_codegen_implementation(options), backend.get_module_map()
    module = source.make_ir(target, options, functions, modules, context)
    return library.compile_ttir_to_hsaco_inplace(module, backend, options)


if __name__ == "__main__":
    print(compile_for("gfx942").name)
