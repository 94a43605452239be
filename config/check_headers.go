package config

import (
	"fmt"
	"slices"
	"strings"
)

// managed are the fields that the gateway writes itself: those of a
// connection, of the framing of a body, and what it says of key exchange.
var managed = []string{
	"connection", "content-length", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "x-pq", "x-pq-group",
}

func (c *checker) headerOps(ops *HeaderOps, path string, request bool) {
	if len(ops.Set)+len(ops.Add)+len(ops.Remove) == 0 {
		c.fail(path, "changes nothing", "give it set, add or remove")
	}
	c.fieldList(ops.Set, join(path, "set"), request)
	c.fieldList(ops.Add, join(path, "add"), false)
	for i, name := range ops.Remove {
		c.fieldName(name, itemPath(c, join(path, "remove"), i), false)
	}
}

// fieldList checks fields that are to be written.
func (c *checker) fieldList(fields Fields, path string, host bool) {
	for i, f := range fields {
		at := c.fieldPath(path, i, f)
		c.fieldName(f.Name, at, host)
		if !validValue(f.Value) {
			c.fail(at, "the value has a control character or space around it", "")
		}
	}
}

func (c *checker) fieldPath(path string, i int, f Field) string {
	if at := join(path, f.Name); c.at[at] != (position{}) {
		return at
	}
	return index(path, i)
}

func (c *checker) fieldName(name, at string, host bool) {
	lower := strings.ToLower(name)
	switch {
	case name == "":
		return
	case !validToken(name):
		c.fail(at, fmt.Sprintf("%q is not a field name", name), "")
	case slices.Contains(managed, lower):
		c.fail(at, fmt.Sprintf("%s is the gateway's own to write", name), "")
	case lower == "host" && !host:
		c.fail(at, "Host can only be set, and only of a request", "")
	}
}

// fieldNames checks fields that are to be matched.
func (c *checker) fieldNames(fields Fields, path string) {
	for i, f := range fields {
		if f.Name != "" && !validToken(f.Name) {
			c.fail(c.fieldPath(path, i, f), fmt.Sprintf("%q is not a field name", f.Name), "")
		}
	}
}
