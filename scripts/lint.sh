#!/usr/bin/env bash
# Runs golangci-lint. It runs once more when it could not type-check what the
# compiler can (make test has run go vet before): a build cache that another
# build changes under it has that effect.
set -euo pipefail
cd "$(dirname "$0")/.."
lint=$(scripts/tools.sh)/golangci-lint

output=$("$lint" run ./... 2>&1) && exit 0
if grep -q '(typecheck)$' <<<"$output" && go vet ./...; then
  exec "$lint" run ./...
fi
printf '%s\n' "$output" >&2
exit 1
