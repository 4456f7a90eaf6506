#!/usr/bin/env bash
# Runs `ligerdiag check` and writes every report; the exit code is an output, because later steps upload the reports first.
# GitHub's annotations go to standard output, the report of the job's page to $GITHUB_STEP_SUMMARY: `--format github` writes both.
set -euo pipefail

reports="${RUNNER_TEMP:?}/ligerdiag"
mkdir -p "$reports"
words=()
read_words() { # splits the input as a shell would, without running anything in it
  while IFS= read -r -d '' word; do words+=("$word"); done < <(printf '%s' "${ARGS:-}" | "$PYTHON" -c \
    'import shlex, sys; sys.stdout.write("".join(f"{word}\0" for word in shlex.split(sys.stdin.read())))')
}
read_words
if [ -n "${TARGET:-}" ]; then words+=(--target "$TARGET"); fi
words+=(--format github)
for form in json sarif junit markdown; do words+=(--output "$form=$reports/report.$form"); done
words+=(--)
while IFS= read -r selector; do
  if [ -n "$selector" ]; then words+=("$selector"); fi
done <<<"${SELECTORS:-}"

rm -f "$reports"/*
code=0
"$PYTHON" -m ligerdiag check "${words[@]}" || code=$?
{
  printf 'exit-code=%s\n' "$code"
  for form in json sarif junit markdown; do
    if [ -f "$reports/report.$form" ]; then printf '%s=%s\n' "$form" "$reports/report.$form"; fi
  done
} >>"$GITHUB_OUTPUT"

# Code scanning would open alerts for findings that a case expects or a reason allows, so it gets the others alone.
if [ -f "$reports/report.sarif" ]; then
  "$PYTHON" -c '
import json, sys
log = json.load(open(sys.argv[1]))
for run in log["runs"]:
    run["results"] = [result for result in run["results"] if not result["suppressions"]]
json.dump(log, open(sys.argv[2], "w"))
' "$reports/report.sarif" "$reports/counted.sarif"
  printf 'counted=%s\n' "$reports/counted.sarif" >>"$GITHUB_OUTPUT"
fi

# The comment: what changed since the baseline if there is one, and else the report.
if [ -f "$reports/report.markdown" ]; then
  comment="$reports/comment.md"
  printf '<!-- ligerdiag -->\n' >"$comment"
  if [ -n "${BASELINE:-}" ] && [ -f "${BASELINE:-}" ]; then
    changed=0
    "$PYTHON" -m ligerdiag compare --format markdown -- "$BASELINE" "$reports/report.json" >>"$comment" || changed=$?
    if [ "$changed" -gt 1 ]; then cat "$reports/report.markdown" >>"$comment"; fi
    printf 'compare-exit-code=%s\n' "$changed" >>"$GITHUB_OUTPUT"
  else
    cat "$reports/report.markdown" >>"$comment"
  fi
  printf 'comment=%s\n' "$comment" >>"$GITHUB_OUTPUT"
fi
