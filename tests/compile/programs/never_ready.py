"""A worker whose imports never end."""

import time

time.sleep(3600)
