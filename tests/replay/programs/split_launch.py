"""Runs a launch on two processes, with a folder first on every path that Python knows: what it prints is the result."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

import numpy as np

from ligerdiag.replay.kernels.kernels import KernelRunner
from tests.replay.interpreted_kernels import make_launch


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    os.environ["PYTHONPATH"] = sys.argv[1]
    launch = make_launch("double_kernel", (4,), 1, 1, constants={"BLOCK": 8})
    x, out = np.ones(32, np.float32), np.zeros(32, np.float32)
    with KernelRunner([launch], processes=2, split_seconds=0.0) as runner:
        runner.launch(launch.payload, [x], [out])
    print(x.sum(), out.sum())


if __name__ == "__main__":
    main()
