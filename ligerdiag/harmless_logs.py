"""Hides a harmless log of JAX in the user's process.

ligerdiag brings the CUDA plugin of JAX without CUDA libraries, because it compiles without a GPU. When a program makes
its first array, JAX tries that plugin, misses cuDNN, logs an error with a traceback, and uses the CPU. On machines with
an NVIDIA GPU the log stays, because there it says why JAX does not use the GPU; `LIGERDIAG_DEBUG` keeps it everywhere.
"""

import logging
import os
import re

LOGGER = "jax._src.xla_bridge"
_DEVICES = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg")
"""Device files of NVIDIA's driver, on Linux and on the Windows subsystem for Linux; a machine with a GPU has one of
them.
"""
_HARMLESS = re.compile(r"Unable to load (cu\w+|CUPTI|NVSHMEM|NCCL)\b", re.IGNORECASE)


def keep_record(record: logging.LogRecord) -> bool:
    """Returns whether Python should log the record: False only for JAX's error about a missing CUDA library."""
    error = record.exc_info[1] if record.exc_info else None
    return not (record.getMessage().startswith("Jax plugin configuration error") and _HARMLESS.search(str(error)))


def has_nvidia_device() -> bool:
    """Returns whether the machine has the device files of an NVIDIA GPU."""
    return any(os.path.exists(device) for device in _DEVICES)


def hide_harmless_logs() -> None:
    """Removes JAX's errors about missing CUDA libraries from the logs of this process.

    Does nothing if the machine has an NVIDIA GPU. A second call changes nothing.
    """
    if not os.environ.get("LIGERDIAG_DEBUG") and not has_nvidia_device():
        logging.getLogger(LOGGER).addFilter(keep_record)
