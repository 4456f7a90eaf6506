"""Asks NVIDIA Warp for the PTX of the kernels that a lowered program calls, because their custom calls carry no code.

`jax_kernel` registers an FFI target of its own for each kernel and keeps the kernel in a registry. The compiler inside of
Warp makes PTX without a GPU. The registry is not a public interface: anything that is not as expected leaves the call
without a kernel, so that its effects are unknown. The targets of `jax_callable`, a Python function that launches
kernels, have no kernel either.
"""

import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from jaxlib.mlir import ir

from ligerdiag.artifacts.call_records import KernelParameter, LibraryKernel
from ligerdiag.artifacts.ptx_text import cut_entry
from ligerdiag.compile.cases.stablehlo_program import walk_operations

_REGISTRIES = ("warp._src.jax.ffi", "warp._src.jax_experimental.ffi", "warp.jax_experimental.ffi")
"""Modules, one of which has the registry in a version of Warp."""
_ADDRESSES = (0, 8)
"""Offsets of the addresses of an array and of its gradient in the structure that a kernel takes for an array."""


def find_library_kernels(module: ir.Module, compute_capability: int) -> tuple[LibraryKernel, ...]:
    """Returns the Warp kernels that the custom calls of a StableHLO module launch."""
    known = {kernel.name: kernel for kernel in _iterate_warp_kernels()}
    if not known:
        return ()
    found: dict[str, LibraryKernel] = {}
    for operation in walk_operations(module.operation):
        if operation.name != "stablehlo.custom_call":
            continue
        target = ir.StringAttr(operation.attributes["call_target_name"]).value
        if target in known and target not in found:
            try:
                found[target] = _compile_warp(known[target], compute_capability)
            except Exception as fault:  # the effects of the call stay unknown, with its target's name
                traceback.print_exception(fault)
    return tuple(found.values())


def _iterate_warp_kernels() -> Iterator[Any]:
    for name in _REGISTRIES:
        registry: Any = getattr(sys.modules.get(name), "_FFI_KERNEL_REGISTRY", None)
        if isinstance(registry, dict):
            kernels: list[Any] = list(cast(dict[Any, Any], registry).values())
            yield from (kernel for kernel in kernels if hasattr(kernel, "input_args"))


def _compile_warp(call: Any, compute_capability: int) -> LibraryKernel:
    """Returns the kernel of an `FfiKernel`: its first parameter is the size of the launch, each other one an argument."""
    warp: Any = sys.modules["warp"]
    inputs, outputs = list(call.input_args), list(call.output_args)
    in_out = sum(bool(argument.in_out) for argument in inputs)
    numbers = [
        *(number if argument.is_array else None for number, argument in enumerate(inputs)),
        *(len(inputs) + in_out + number for number, _ in enumerate(outputs)),
    ]
    with tempfile.TemporaryDirectory() as folder:
        files = warp.compile_aot_module(call.kernel.module, arch=compute_capability, use_ptx=True, module_dir=folder)
        (path,) = [Path(file) for file in files if Path(file).suffix == ".ptx"]
        ptx = path.read_text(encoding="utf-8")
    entry = f"{call.kernel.get_mangled_name()}_cuda_kernel_forward"
    return LibraryKernel(
        target=call.name,
        kernel=call.kernel.key,
        entry=entry,
        ptx=cut_entry(ptx, entry),
        parameters=(
            KernelParameter(buffer=None),
            *(KernelParameter(buffer=one, addresses=() if one is None else _ADDRESSES) for one in numbers),
        ),
        operands=len(inputs),
        outputs=in_out + len(outputs),
    )
