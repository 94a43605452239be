package config

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
)

// Resolve makes a tree that was built in Go complete, as Load does: it fills
// what depends on other settings and checks everything. The error is a
// *Problems without positions.
func (t *Tree) Resolve() (Warnings, error) {
	r := newReport("", nil)
	t.resolve(r)
	return r.result()
}

// checker checks a tree against itself.
type checker struct {
	*report
	tree *Tree
	// usedTLS and usedUpstreams are the names that something refers to.
	usedTLS, usedUpstreams map[string]bool
	// routeNames are the paths of the routes by name.
	routeNames map[string]string
}

func (t *Tree) resolve(r *report) {
	c := &checker{report: r, tree: t, usedTLS: map[string]bool{}, usedUpstreams: map[string]bool{}, routeNames: map[string]string{}}
	c.required(reflect.ValueOf(t).Elem(), "")
	c.general()
	t.complete()
	for _, name := range sortedKeys(t.TLS) {
		c.tls(t.TLS[name], join("tls", name))
		c.certificates(t.TLS[name], name, join("tls", name))
	}
	c.limits(&t.Limits, "limits")
	c.kms()
	c.listeners()
	for _, name := range sortedKeys(t.Upstreams) {
		c.upstream(name, t.Upstreams[name])
	}
	for i, route := range t.Routes {
		c.routeName(route, index("routes", i))
		c.route(route, index("routes", i))
	}
	c.ambiguous()
	c.unused()
}

// complete fills what depends on other settings.
func (t *Tree) complete() {
	for _, s := range t.TLS {
		if s.ClientCA != "" && s.ClientAuth == ClientAuthNone {
			s.ClientAuth = ClientAuthRequire
		}
	}
	for _, l := range t.Listeners {
		if len(l.Protocols) > 0 {
			continue
		}
		l.Protocols = defaultProtocols(l.TLS != "")
	}
	names := map[string]bool{}
	for _, r := range t.Routes {
		names[r.Name] = true
	}
	for _, r := range t.Routes {
		for i, h := range r.Match.Host {
			r.Match.Host[i] = normalHost(h)
		}
		if r.Name == "" {
			r.Name = unusedName(r.defaultName(), names)
			names[r.Name] = true
		}
	}
}

func defaultProtocols(secure bool) []Protocol {
	if secure {
		return []Protocol{H1, H2}
	}
	return []Protocol{H1, H2C}
}

// defaultName is a route's host and path as people would say it.
func (r *Route) defaultName() string {
	path := r.Match.Path
	if path == "" {
		path = "/*"
	}
	if len(r.Match.Host) > 0 {
		path = normalHost(r.Match.Host[0]) + path
	}
	return path[:min(len(path), maxRouteName-len("#99999"))]
}

func unusedName(name string, used map[string]bool) string {
	candidate := name
	for n := 2; used[candidate]; n++ {
		candidate = fmt.Sprintf("%s#%d", name, n)
	}
	return candidate
}

// required reports keys without which nothing can be made of the rest.
func (c *checker) required(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c.required(v.Elem(), path)
		}
	case reflect.Map:
		for _, key := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			c.required(v.MapIndex(key), join(path, key.String()))
		}
	case reflect.Slice:
		for i := range v.Len() {
			c.required(v.Index(i), index(path, i))
		}
	case reflect.Struct:
		if isScalar(v.Type()) || v.Type() == refType {
			return
		}
		for _, f := range fieldsOf(v.Type()) {
			at := join(path, f.key)
			value := v.FieldByIndex(f.Index)
			missing := value.IsZero() || value.Kind() == reflect.Slice && value.Len() == 0
			if f.Tag.Get("required") != "" && missing && !c.failedBelow(at) {
				c.fail(at, "is missing", "")
				continue
			}
			c.required(value, at)
		}
	}
}

// general checks what stands at the top.
func (c *checker) general() {
	t := c.tree
	if t.Version != Version && t.Version != 0 {
		c.fail("version", fmt.Sprintf("version %d is unknown", t.Version), "this build knows version 1")
	}
	if hint := strayWord(t.AccessLog); hint != "" {
		c.warn("access_log", fmt.Sprintf("is the path of a file, %s", t.AccessLog), hint)
	}
	if t.Admin != nil && !t.Admin.Address.IsZero() && !local(t.Admin.Address) {
		c.warn("admin.address", "whoever reaches it over the network can stop the gateway", "listen on a unix socket or on 127.0.0.1")
	}
	if len(t.Routes) == 0 && !c.failedBelow("routes") {
		c.warn("routes", "there are none, so that every request is answered 404", "")
	}
}

// strayWord is a hint where the path of a log looks like a misspelt word.
func strayWord(f LogFile) string {
	base := string(f)[strings.LastIndexByte(string(f), '/')+1:]
	if f.IsWord() || base == "" || strings.Contains(base, ".") {
		return ""
	}
	return didYouMean(base, []string{string(AccessLogOff), string(AccessLogStdout)})
}

// local reports whether only this machine reaches an address.
func local(a Address) bool {
	if a.IsUnix() {
		return true
	}
	host, _, _ := splitHostPort(a.Addr)
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func (c *checker) limits(l *Limits, path string) {
	for _, f := range []struct {
		key  string
		zero bool
	}{{"head_bytes", l.HeadBytes == 0}, {"fields", l.Fields == 0}, {"streams", l.Streams == 0}, {"calls", l.Calls == 0}, {"frame_bytes", l.FrameBytes == 0}} {
		if f.zero {
			c.fail(join(path, f.key), "must not be 0: a stranger decides how much it would be", "")
		}
	}
	if l.HeadBytes > maxHead {
		c.fail(join(path, "head_bytes"), fmt.Sprintf("is more than %s", Bytes(maxHead)), "")
	}
	if l.FrameBytes > maxFrame {
		c.fail(join(path, "frame_bytes"), fmt.Sprintf("is more than %s", Bytes(maxFrame)), "longer values travel on a stream")
	}
}

// maxHead is the most that head_bytes may be: heads are kept in memory whole
// and their fields as 32-bit offsets.
const maxHead = 16 << 20

// maxFrame is the most that frame_bytes may be: frames are kept in memory whole.
const maxFrame = 256 << 20

// unused warns of settings that nothing refers to.
func (c *checker) unused() {
	for _, name := range sortedKeys(c.tree.TLS) {
		if at := join("tls", name); !c.usedTLS[name] && !c.failed(at) {
			c.warn(at, "nothing uses these settings", "")
		}
	}
	for _, name := range sortedKeys(c.tree.Upstreams) {
		if at := join("upstreams", name); !c.usedUpstreams[name] && !c.failed(at) {
			c.warn(at, "no route leads here", "")
		}
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
