#!/usr/bin/env bash
# Runs go test with the arguments given. Tests that fail are run once more,
# one package after the other: on a machine whose cores others share, a test that waits for
# real programs can run out of time. What passes only then is named at the end, to
# be mended as the bug that it is; what fails twice fails.
set -euo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if go test "$@" 2>&1 | tee "$log"; then
  exit 0
fi
mapfile -t failed < <(awk '$1 == "FAIL" && $2 ~ /\// { print $2 }' "$log" | sort -u)
if [[ ${#failed[@]} -eq 0 || ${#failed[@]} -gt 4 ]] || grep -q 'DATA RACE' "$log"; then
  exit 1
fi
flags=()
for a in "$@"; do
  case $a in ./* | */*) ;; *) flags+=("$a") ;; esac
done
names=$(awk '$1 == "---" && $2 == "FAIL:" && /^---/ { print $3 }' "$log" | sort -u | paste -sd'|')
if [[ -n $names ]] && ! grep -q '^panic:' "$log"; then
  flags+=(-run "^($names)\$")
fi
printf '\nonce more: %s %s\n' "${failed[*]}" "${names:-}"
go test -p 1 -count=1 "${flags[@]}" "${failed[@]}"
printf '\nPASSED ONLY AT THE SECOND TRY, which is a bug: %s\n' "${failed[*]}"
