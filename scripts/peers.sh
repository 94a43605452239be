#!/usr/bin/env bash
# Installs the real programs that the tests talk to into a cache folder, and
# says which it could not have. Quick when they are there already.
#
# usage: scripts/peers.sh [--bench] [PEER]...
#   --bench               also what only benchmarks compare with (Caddy)
#   PQGW_PEERS            the cache folder (default ~/.cache/pqgw-peers)
#   PQGW_REQUIRE_PEERS=1  a missing peer is an error (CI)
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

node_version=24 # OpenSSL 3.5: all three hybrid groups
ws_version=8.23.0
caddy_version=v2.11.9
trixie_packages=openssl,curl,nginx-light,haproxy,nghttp2-client,wrk,ca-certificates

# Each peer_NAME makes a peer be there, or returns 1 with the reason set.

peer_curl() { command -v curl >/dev/null || apt_install curl ca-certificates; }

peer_strace() { command -v strace >/dev/null || apt_install strace; }

# A PKCS#11 token in software, and p11-kit to have it in another process, which can
# be restarted.
peer_softhsm() {
  if command -v softhsm2-util >/dev/null && command -v p11-kit >/dev/null &&
    compgen -G '/usr/lib/*/pkcs11/p11-kit-client.so' >/dev/null; then return 0; fi
  apt_install softhsm2 p11-kit p11-kit-modules
}

peer_chromium() {
  local name
  for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null && return 0
  done
  apt_install chromium
}

# The platform's own package is asked for, since the package "node" fetches it
# in an install script, which npm may be told not to run.
peer_node() {
  local want="$node_version $ws_version" arch
  [[ -x $cache/node/bin/node && -f $cache/node/.stamp && $(<"$cache/node/.stamp") == "$want" ]] && return 0
  [[ $(uname -s) == Linux ]] || { reason="is only fetched on Linux; put node $node_version at $cache/node/bin/node and ws at $cache/node/node_modules"; return 1; }
  case $(uname -m) in
    x86_64) arch=x64 ;;
    aarch64) arch=arm64 ;;
    *) reason="has no package for $(uname -m)"; return 1 ;;
  esac
  command -v npm >/dev/null || apt_install npm || return 1
  rm -rf "$cache/node"
  mkdir -p "$cache/node/bin"
  say "installing: node $node_version and ws"
  npm install --no-audit --no-fund --prefix "$cache/node" "node-linux-$arch@$node_version" "ws@$ws_version" >"$cache/npm.log" 2>&1 ||
    { reason="npm install failed; see $cache/npm.log"; return 1; }
  ln -sf "../node_modules/node-linux-$arch/bin/node" "$cache/node/bin/node"
  "$cache/node/bin/node" --version >/dev/null || { reason="does not run"; return 1; }
  printf '%s' "$want" >"$cache/node/.stamp"
}

# h2spec, the grpc-go interop pair, grpcurl and Pebble. Their module's go line
# is ours, so that none of them has the hybrid groups switched off by age.
peer_go() { go_tools "$root/tools/peers" "$cache/bin"; }

# A small Debian trixie in a folder: OpenSSL 3.5, curl with HTTP/3, nginx,
# HAProxy and h2load with hybrid groups. Entered by chroot, so it needs root.
peer_trixie() {
  [[ -f $cache/trixie/.stamp && $(<"$cache/trixie/.stamp") == "$trixie_packages" ]] && return 0
  [[ $(id -u) == 0 ]] || { reason="needs root (chroot): sudo make peers, and the tests as root"; return 1; }
  command -v debootstrap >/dev/null || apt_install debootstrap || return 1
  rm -rf "$cache/trixie" "$cache/trixie.new"
  say "installing: Debian trixie in $cache/trixie"
  debootstrap --variant=minbase --include="$trixie_packages" trixie "$cache/trixie.new" $(debian_mirror) >"$cache/debootstrap.log" 2>&1 ||
    { reason="debootstrap failed; see $cache/debootstrap.log"; return 1; }
  rm -rf "$cache/trixie.new"/var/cache/apt/archives/*.deb
  printf '%s' "$trixie_packages" >"$cache/trixie.new/.stamp"
  mv "$cache/trixie.new" "$cache/trixie"
}

# debian_mirror prints the mirror that this machine's apt uses, or nothing,
# which leaves debootstrap its default.
debian_mirror() {
  command -v apt-cache >/dev/null || return 0
  apt-cache policy 2>/dev/null | awk '/http.*\/debian\/? .*main/ {print $2; exit}'
}

peer_caddy() {
  [[ -x $cache/bench/caddy-$caddy_version ]] && return 0
  say "building Caddy $caddy_version"
  GOBIN=$cache/bench go install "github.com/caddyserver/caddy/v2/cmd/caddy@$caddy_version" ||
    { reason="building Caddy failed"; return 1; }
  mv "$cache/bench/caddy" "$cache/bench/caddy-$caddy_version"
}

peers=(curl strace softhsm chromium node go trixie)
[[ ${1:-} == --bench ]] && { shift; peers+=(caddy); }
[[ $# -gt 0 ]] && peers=("$@")

# One at a time: two test runs must not build the same cache at once.
if command -v flock >/dev/null; then exec 9>"$cache/.lock" && flock 9; fi

have=() missing=0
for peer in "${peers[@]}"; do
  declare -F "peer_$peer" >/dev/null || { say "peers: there is no peer $peer"; exit 2; }
  reason=""
  if "peer_$peer"; then
    have+=("$peer")
  else
    say "peers: cannot have $peer: it ${reason:-could not be installed}"
    missing=$((missing + 1))
  fi
done
say "peers: ${have[*]:-none} in $cache; missing: $missing"
[[ $missing == 0 || ${PQGW_REQUIRE_PEERS:-} != 1 ]]
