"""Hides a log of JAX in a test's own process that has nothing to do with the test.

1. ligerdiag brings the CUDA plugin of JAX and no CUDA libraries: it compiles without a GPU. Where a test makes an array, JAX
   tries that plugin, misses cuDNN, logs an error with its traceback, and goes on with the CPU.
2. pytest shows that log beside each failing test. It is left out only on machines without an NVIDIA GPU: with one, it
   says why JAX does not use it.
3. `LIGERDIAG_DEBUG` keeps it.
"""

import logging
import os
import re
from pathlib import Path

LOGGER = "jax._src.xla_bridge"
_DEVICES = (Path("/dev/nvidia0"), Path("/dev/nvidiactl"), Path("/dev/dxg"))
_HARMLESS = re.compile(r"Unable to load (cu\w+|CUPTI|NVSHMEM|NCCL)\b", re.IGNORECASE)


def keep_record(record: logging.LogRecord) -> bool:
    """Returns whether the record says more than that JAX finds no CUDA library; see 1."""
    error = record.exc_info[1] if record.exc_info else None
    return not (record.getMessage().startswith("Jax plugin configuration error") and _HARMLESS.search(str(error)))


def hide_harmless_logs() -> None:
    """Leaves such records out of what this process logs, where there is no NVIDIA GPU; see 2 and 3."""
    if not os.environ.get("LIGERDIAG_DEBUG") and not any(device.exists() for device in _DEVICES):
        logging.getLogger(LOGGER).addFilter(keep_record)
