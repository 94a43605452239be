# Sourced by the scripts beside it: where the cache is, and how to install.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# The cache lies outside the checkout, so that a fresh clone is quick too.
cache=${PQGW_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/pqgw-peers}
mkdir -p "$cache"

say() { printf '%s\n' "$*" >&2; }

# as_root runs a command as root, or fails where that would need a password.
as_root() {
  if [[ $(id -u) == 0 ]]; then "$@"; else sudo -n "$@"; fi
}

# apt_install installs Debian packages; the package lists are fetched once.
apt_install() {
  command -v apt-get >/dev/null || { reason="needs apt-get, or install by hand: $*"; return 1; }
  as_root true 2>/dev/null || { reason="needs root: sudo apt-get install $*"; return 1; }
  if [[ -z ${apt_updated:-} ]]; then
    as_root apt-get update -q >"$cache/apt.log" 2>&1 || say "apt-get update failed, going on with the old lists; see $cache/apt.log"
    apt_updated=1
  fi
  say "installing: $*"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$@" >>"$cache/apt.log" 2>&1 ||
    { reason="apt-get install $* failed; see $cache/apt.log"; return 1; }
}

# go_tools MODULE-DIR DESTINATION installs the tools that a module of its own
# pins, once for each state of its go.mod and each Go version.
go_tools() {
  local module=$1 destination=$2 stamp
  stamp="$(cat "$module/go.mod" "$module/go.sum" | cksum) $(go env GOVERSION)"
  [[ -f $destination/.stamp && $(<"$destination/.stamp") == "$stamp" ]] && return 0
  say "building the tools of ${module#"$root"/}"
  mkdir -p "$destination"
  (cd "$module" && GOFLAGS=-mod=readonly GOBIN=$destination go install tool) ||
    { reason="building $module failed"; return 1; }
  printf '%s' "$stamp" >"$destination/.stamp"
}
