"""The seed's sentence on a train step: the trivial operations are "not robust and fail for training a LLM like Llama on
multi-GPU setups" (https://github.com/phlippe/liger_kernels). Two layers, AdamW, four devices; kernels/llama/grid.py has the
sizes up to 70B on 512.
"""

from kernels.llama.grid import make_case
from kernels.llama.layout import LAYOUTS

ROWS = (
    ("fsdp", "hidden"),
    ("fsdp", "trivial"),
    ("fsdp", "aliased"),
    ("fsdp", "shard_map"),
    ("fsdp+tp", "trivial"),
    ("fsdp+tp", "shard_map"),
)

CASES = tuple(make_case(LAYOUTS[layout], "tiny", 4, mode, name="llama_step") for layout, mode in ROWS)
