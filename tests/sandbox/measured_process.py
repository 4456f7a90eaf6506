"""Runs a command and prints its cost: `measured_process.py SECONDS OUTPUT WORD...`. Imports little on purpose.

Linux counts the memory of a forking process towards the maximum of its child, so a large test process cannot measure a
small command. This process runs between the two.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Timer


def measure_process(words: list[str], output: Path, timeout: float) -> dict[str, float]:
    """Kills the whole process group after `timeout` seconds; the exit code is then negative. memory: bytes; seconds:
    CPU.
    """
    with output.open("wb") as out:
        process = subprocess.Popen(words, stdout=out, stderr=subprocess.DEVNULL, start_new_session=True)
        watch = Timer(timeout, os.killpg, (process.pid, signal.SIGKILL))
        watch.start()
        _, status, used = os.wait4(process.pid, 0)
        watch.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = used.ru_utime + used.ru_stime
    return {"code": process.returncode, "seconds": seconds, "memory": used.ru_maxrss << 10}


if __name__ == "__main__":
    print(json.dumps(measure_process(sys.argv[3:], Path(sys.argv[2]), float(sys.argv[1]))))
