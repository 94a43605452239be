#!/usr/bin/env bash
# Runs every fuzz target in turn. Minimizing is kept short: by default an input
# of some KB takes up the whole minute. usage: scripts/fuzz.sh [TIME-EACH] [PACKAGE]...
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-30s}
shift || true
[[ $# -gt 0 ]] || set -- ./...

while read -r package dir; do
  for target in $({ grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go 2>/dev/null || true; } | awk '{print $2}'); do
    echo "fuzzing $package $target for $time" >&2
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x "$package"
  done
done < <(go list -f '{{.ImportPath}} {{.Dir}}' "$@")
