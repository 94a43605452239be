// Package folder knows where the real programs are that tests and benchmarks
// talk to, as scripts/peers.sh installs them.
package folder

import (
	"os"
	"path/filepath"
)

// Env names the environment variable for the cache folder; unset, it is
// pqgw-peers in the user's cache folder.
const Env = "PQGW_PEERS"

// Dir is the cache folder that scripts/peers.sh installs into, whether or not
// it exists.
func Dir() string {
	if dir := os.Getenv(Env); dir != "" {
		return dir
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	return filepath.Join(cache, "pqgw-peers")
}
