#!/usr/bin/env bash
# Writes $COMMENT as a comment of the pull request $NUMBER, or over the one from the last run. A fork's token may not: a warning then.
set -euo pipefail

marker='<!-- ligerdiag -->'
body="$COMMENT.cut"
{ head -c 60000 "$COMMENT" | iconv -c -f utf-8 -t utf-8 >"$body"; } || true # GitHub takes 65536 characters; a cut one is dropped
if [ "$(wc -c <"$COMMENT")" -gt 60000 ]; then printf '\n\n… cut here: the page of the job has all of it\n' >>"$body"; fi

write() {
  local list="repos/$GITHUB_REPOSITORY/issues/$NUMBER/comments" known
  known="$(gh api --paginate "$list" --jq ".[] | select(.user.type == \"Bot\" and (.body | startswith(\"$marker\"))) | .id")" || return
  known="${known%%$'\n'*}"
  if [ -n "$known" ]; then
    gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$known" -F "body=@$body"
  else
    gh api --silent --method POST "$list" -F "body=@$body"
  fi
}
write || echo "::warning title=ligerdiag::the comment could not be written: it needs \`pull-requests: write\`, which a fork does not get"
