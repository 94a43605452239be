package config

// Route says what becomes of the requests that it matches. It has exactly one
// of To, Redirect and Respond.
type Route struct {
	// Name of the route in logs and metrics. Default: its host and path.
	Name string `yaml:"name"`
	// Match says which requests the route is for. Left out: all.
	Match Match `yaml:"match"`
	// To names the upstream that gets the request; `trace` is built in.
	To string `yaml:"to"`
	// Redirect answers with another place to go to.
	Redirect *Redirect `yaml:"redirect"`
	// Respond answers at once.
	Respond *Respond `yaml:"respond"`
	// Rewrite changes the path on its way to the upstream.
	Rewrite *Rewrite `yaml:"rewrite"`
	// RequestHeaders changes the request's fields on their way to the upstream.
	RequestHeaders *HeaderOps `yaml:"request_headers"`
	// ResponseHeaders changes the answer's fields on their way to the client.
	ResponseHeaders *HeaderOps `yaml:"response_headers"`
	// Timeouts in place of the upstream's; what is left out stays as it is there.
	Timeouts *Timeouts `yaml:"timeouts"`
}

// Match is the conditions of a route; all that are given must hold.
type Match struct {
	// Listener is one listener's name or several.
	Listener []string `yaml:"listener" one:"true"`
	// Host is one host or several, each exact or `*.example.com` (every name below example.com, not itself); without a port; case does not matter.
	Host []string `yaml:"host" one:"true"`
	// Path is exact (`/v1/models`) or a prefix (`/v1/*`: /v1 itself and all below it). Case matters.
	Path string `yaml:"path"`
	// Method is one method or several. GET does not imply HEAD.
	Method []string `yaml:"method" one:"true"`
	// Header fields that must be there; the value `*` stands for any.
	Header Fields `yaml:"header"`
	// Peer is one verified identity or several: a DNS name or a spiffe:// URI of the client's certificate.
	Peer []string `yaml:"peer" one:"true"`
	// RPCMethod is the method number of a ZAP call.
	RPCMethod *uint32 `yaml:"rpc_method"`
}

// Redirect is an answer with a Location field.
type Redirect struct {
	// To is the Location. `{scheme}`, `{host}`, `{path}` and `{query}` stand for the request's; `{query}` has its question mark.
	To string `yaml:"to" required:"true"`
	// Status is 301, 302, 303, 307 or 308.
	Status int `yaml:"status" default:"308"`
}

// Respond is an answer without an upstream.
type Respond struct {
	// Status is 200 to 599.
	Status int `yaml:"status" default:"200"`
	// Body is the content.
	Body string `yaml:"body"`
	// Headers of the answer. Content-Type defaults to text/plain where there is a body.
	Headers Fields `yaml:"headers"`
}

// Rewrite changes the beginning of a path. What is replaced is StripPrefix
// where given, else the prefix of the route's path; see Route.PathRewrite.
type Rewrite struct {
	// StripPrefix is taken off the path where the path begins with it, in whole segments.
	StripPrefix string `yaml:"strip_prefix"`
	// ReplacePrefix comes in place of what is taken off; on its own, of the prefix that match.path names.
	ReplacePrefix string `yaml:"replace_prefix"`
}

// HeaderOps changes header fields: first remove, then set, then add.
type HeaderOps struct {
	// Set puts a field in place of all of its name.
	Set Fields `yaml:"set"`
	// Add puts a field beside those of its name.
	Add Fields `yaml:"add"`
	// Remove takes all fields of these names off.
	Remove []string `yaml:"remove" one:"true"`
}

// Field is a header field.
type Field struct {
	// Name as it is to be written; compared without regard to case.
	Name string `yaml:"name" required:"true"`
	// Value without surrounding space.
	Value string `yaml:"value"`
}

// Fields are header fields in their order. In the file they are a map of
// names to values, or a list of {name, value} where a name comes twice.
type Fields []Field

// PathRewrite returns the prefix from which the path is changed and what
// comes in its place; ok is false where the path stays as it is.
func (r *Route) PathRewrite() (from, to string, ok bool) {
	if r.Rewrite == nil {
		return "", "", false
	}
	from = r.Rewrite.StripPrefix
	if from == "" {
		from, _ = r.Match.PathPrefix()
	}
	return from, r.Rewrite.ReplacePrefix, true
}

// PathPrefix returns the prefix that Path stands for without its ending `/*`,
// and whether Path is a prefix; `/*` and an empty Path have an empty prefix.
func (m *Match) PathPrefix() (prefix string, ok bool) {
	if m.Path == "" {
		return "", true
	}
	if n := len(m.Path) - len("/*"); n >= 0 && m.Path[n:] == "/*" {
		return m.Path[:n], true
	}
	return m.Path, false
}
