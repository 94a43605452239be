#!/usr/bin/env bash
# Builds the tools that tools/go.mod pins (golangci-lint, gofumpt, govulncheck,
# benchstat) into the cache, once for each version, and prints their folder.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

reason=""
go_tools "$root/tools" "$cache/tools" || { say "tools: $reason"; exit 1; }
printf '%s\n' "$cache/tools"
