#!/usr/bin/env bash
# Fails with the list of files that gofumpt would change; --write changes them.
set -euo pipefail
cd "$(dirname "$0")/.."
gofumpt=$(scripts/tools.sh)/gofumpt

files=()
while IFS= read -r file; do
  [[ -f $file ]] && files+=("$file")
done < <(git ls-files --cached --others --exclude-standard -- '*.go')

[[ ${1:-} == --write ]] && exec "$gofumpt" -w "${files[@]}"
changed=$("$gofumpt" -l "${files[@]}")
[[ -z $changed ]] && exit 0
echo "these files are not as gofumpt writes them; run make fmt:" >&2
printf '%s\n' "$changed" >&2
exit 1
