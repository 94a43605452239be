// Package mount lets handlers in this process answer exchanges, as if they were
// an upstream: http.Handler, fasthttp.RequestHandler, and the trace page.
package mount
