"""A sandboxed process that is still importing when its parent ends, and follows nobody of its own accord."""

import os
import sys
import time

sys.stdout.write(f"{os.getpid()}\n")
sys.stdout.flush()
time.sleep(3600)
