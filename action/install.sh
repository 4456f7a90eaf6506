#!/usr/bin/env bash
# Installs ligerdiag into an environment of its own, unless PYTHON names an interpreter that has it; writes `python` to $GITHUB_OUTPUT.
set -euo pipefail

python="${PYTHON:-}"
if [ -z "$python" ]; then
  home="${RUNNER_TEMP:?}/ligerdiag-venv"
  python3 -m venv "$home"
  python="$home/bin/python"
  version="${VERSION:-}"
  case "$version" in
    "") wanted="ligerdiag[jax-triton]" ;;
    [0-9]*) wanted="ligerdiag[jax-triton]==$version" ;;
    *) wanted="$version" ;;  # a path or an address, as pip takes it
  esac
  "$python" -m pip install --quiet -- "$wanted"
  if [ -n "${REQUIREMENTS:-}" ]; then
    "$python" -m pip install --quiet -r "$REQUIREMENTS"
  fi
fi
if [[ "$python" == *$'\n'* ]]; then
  echo "::error title=ligerdiag::expected one line in the input \`python\`" >&2
  exit 2
fi
if ! "$python" -m ligerdiag --version; then
  echo "::error title=ligerdiag::expected ligerdiag in the environment of the input \`python\`" >&2
  exit 2
fi
printf 'python=%s\n' "$python" >>"$GITHUB_OUTPUT"
