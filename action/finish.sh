#!/usr/bin/env bash
# Ends the job as `ligerdiag check` ended; the meaning of the codes: docs/cli.md.
set -euo pipefail

exit "${CODE:-3}"
