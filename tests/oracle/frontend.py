"""Kernels compiled to Triton IR by Triton itself, which needs no GPU."""

from typing import Any


def build_ttir(
    kernel: Any, signature: dict[str, str], constants: dict[str, Any] | None = None, *, optimized: bool = False
) -> bytes:
    """Returns the Triton IR of a kernel, unoptimized as the frontend makes it unless `optimized`. signature: such as
    {"x": "*fp32", "n": "i32"}.
    """
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import ASTSource, make_backend

    target = GPUTarget("cuda", 90, 32)
    backend = make_backend(target)
    options = backend.parse_options({})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    source = ASTSource(
        kernel,
        {name: signature.get(name, "constexpr") for name in kernel.arg_names},
        {(kernel.arg_names.index(name),): value for name, value in (constants or {}).items()},
    )
    module = source.make_ir(
        target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context
    )
    if optimized:
        stages: dict[str, Any] = {}
        backend.add_stages(stages, options, source.language)
        module = stages["ttir"](module, {})
    return str(module).encode()
