"""A child process that is still importing when its parent ends, and that would not end by itself."""

import os
import sys
import time

sys.stdout.write(f"{os.getpid()}\n")
sys.stdout.flush()
time.sleep(3600)
