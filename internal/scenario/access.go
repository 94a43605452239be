package scenario

import (
	"encoding/json"
	"testing"
)

// Access is one line of the access log, under the names that its readers know.
type Access struct {
	Time      string `json:"time"`
	RequestID string `json:"request_id"`
	Listener  string `json:"listener"`
	Protocol  string `json:"protocol"`
	Client    string `json:"client"`
	Method    string `json:"method"`
	Host      string `json:"host"`
	Path      string `json:"path"`
	Status    int    `json:"status"`
	Upstream  string `json:"upstream"`

	TLSVersion string `json:"tls_version"`
	TLSGroup   string `json:"tls_group"`
	TLSPQ      bool   `json:"tls_pq"`
	TLSHRR     bool   `json:"tls_hrr"`
	TLSResumed bool   `json:"tls_resumed"`
	TLSSNI     string `json:"tls_sni"`
	TLSALPN    string `json:"tls_alpn"`

	Peer       string `json:"peer"`
	PQIdentity bool   `json:"pq_identity"`

	UpstreamTLSGroup string `json:"upstream_tls_group"`
	Error            string `json:"error"`
}

// AwaitAccess gives the first line of the access log that matches, where the
// log goes to stdout, as it does by default.
func (g *Gateway) AwaitAccess(t testing.TB, what string, match func(Access) bool) Access {
	t.Helper()
	var found Access
	g.Stdout.Await(t, what, func(line string) bool {
		entry, ok := parseAccess(line)
		if ok && match(entry) {
			found = entry
			return true
		}
		return false
	})
	return found
}

// AccessLog are the lines of the access log so far.
func (g *Gateway) AccessLog() []Access {
	var entries []Access
	for _, line := range g.Stdout.All() {
		if entry, ok := parseAccess(line); ok {
			entries = append(entries, entry)
		}
	}
	return entries
}

func parseAccess(line string) (Access, bool) {
	var entry Access
	err := json.Unmarshal([]byte(line), &entry)
	return entry, err == nil && entry.Time != ""
}
