"""Files with choices of XLA's autotuner for the program `products.py` on an H100, as tests write them by hand."""

H100 = "CUDA: 9.0, Cores: 132, GPU clock: 1.98 GHz, Memory bandwidth: 3352 GB/s, L2 cache: 50 MB, DNN version: 9.19.0"
"""The words by which XLA calls the target `h100`."""
FIRST = (
    r"{\n  tmp_0 = f32[256,4,128]{2,1,0} parameter(0)\n  tmp_1 = f32[4,128,1024]{2,1,0} parameter(1)\n"
    r"  ROOT tmp_2 = f32[4,256,1024]{2,1,0} dot(f32[256,4,128]{2,1,0} tmp_0, f32[4,128,1024]{2,1,0} tmp_1), "
    r"lhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}\n}"
)
"""The HLO of the first product, as XLA writes it in an entry: split into four parts, which are added afterwards."""
SECOND = (
    r"{\n  tmp_0 = f32[256,16,64]{2,1,0} parameter(0)\n  tmp_1 = f32[256,16,64]{2,1,0} tanh(f32[256,16,64]{2,1,0} tmp_0)\n"
    r"  tmp_2 = f32[16,64,128]{2,1,0} parameter(1)\n"
    r"  ROOT tmp_3 = f32[16,256,128]{2,1,0} dot(f32[256,16,64]{2,1,0} tmp_1, f32[16,64,128]{2,1,0} tmp_2), "
    r"lhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}\n}"
)
TILES = "triton { block_m: 64 block_n: 32 block_k: 32 split_k: 1 num_stages: 3 num_warps: 4 num_ctas: 1 }"
"""The choice of a Triton kernel with other tiles than XLA takes without a GPU."""
CUBLAS = "gemm { algorithm: 7 autotune_workspace_size: 4194304 }"
"""The choice of an algorithm of cuBLAS; it splits the fusion, because cuBLAS computes the product alone."""


def render_entry(hlo: str, choice: str, device: str = H100) -> str:
    """Returns an entry of `AutotuneResults` as text, as XLA prints it."""
    return f'results {{\n  device: "{device}"\n  hlo: "{hlo}"\n  result {{\n    {choice}\n  }}\n}}\n'


def render_results(*entries: str, version: int = 3) -> str:
    """Returns a file of `AutotuneResults` as text."""
    return f"version: {version}\n" + "".join(entries)


BOTH = render_results(render_entry(FIRST, TILES), render_entry(SECOND, CUBLAS))
"""A file with a choice for each product."""
