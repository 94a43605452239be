package http3

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hanzoai/pqgw/exchange"
)

// TestTheSameVerdictAsOnOtherProtocols holds requests of bare frames to the
// table that h1 and h2 are held to.
func TestTheSameVerdictAsOnOtherProtocols(t *testing.T) {
	s := serve(t, &Options{
		Limits: exchange.Limits{HeadBytes: 8000, Fields: 50, BodyBytes: 1000},
		Handler: refusing(func(x *exchange.Exchange) {
			if x.Body != nil {
				for {
					if _, err := x.Body.Next(); err != nil {
						if r, ok := err.(*exchange.Refusal); ok { //nolint:errorlint // the value itself
							text(x, r.Status, r.Reason)
							return
						}
						break
					}
				}
			}
			text(x, 200, "ok")
		}),
	})
	huge := strings.Repeat("a", 9000)
	many := strings.Split(strings.Repeat("a,b,", 51), ",")[:102]
	post := []string{":method", "POST", ":scheme", "https", ":authority", "localhost", ":path", "/"}
	for _, tt := range []struct {
		name   string
		sent   []byte
		status int
		reason string
	}{
		{"a plain GET", request(), 200, "ok"},
		{"a GET with an unknown frame before", append([]byte{0x21, 3, 1, 2, 3}, request()...), 200, "ok"},
		{"an upper-case field name", request("X-Upper", "1"), 400, "bad_field_name"},
		{"an empty field name", request("", "1"), 400, "bad_field_name"},
		{"a field name with a space", request("a b", "1"), 400, "bad_field_name"},
		{"a line feed in a value", request("a", "1\n2"), 400, "bad_field_value"},
		{"a NUL in a value", request("a", "1\x002"), 400, "bad_field_value"},
		{"a value with space around", request("a", " 1"), 400, "bad_field_value"},
		{"a Connection field", request("connection", "close"), 400, "connection_field"},
		{"Transfer-Encoding", request("transfer-encoding", "chunked"), 400, "connection_field"},
		{"TE with more than trailers", request("te", "gzip"), 400, "connection_field"},
		{"TE: trailers", request("te", "trailers"), 200, "ok"},
		{"another Host", request("host", "other"), 400, "bad_host"},
		{"the same Host", request("host", "localhost"), 200, "ok"},
		{"no authority", fields(":method", "GET", ":scheme", "https", ":path", "/"), 400, "bad_host"},
		{"user information", fields(":method", "GET", ":scheme", "https", ":authority", "u@h", ":path", "/"), 400, "bad_host"},
		{"no path", fields(":method", "GET", ":scheme", "https", ":authority", "h"), 400, "bad_pseudo_field"},
		{"a path twice", request(":path", "/"), 400, "bad_pseudo_field"},
		{"a pseudo-field behind a field", fields(":method", "GET", ":scheme", "https", ":authority", "h", "a", "b", ":path", "/"), 400, "bad_pseudo_field"},
		{"an unknown pseudo-field", fields(":method", "GET", ":scheme", "https", ":authority", "h", ":path", "/", ":x", "y"), 400, "bad_pseudo_field"},
		{"another scheme", fields(":method", "GET", ":scheme", "ftp", ":authority", "h", ":path", "/"), 400, "bad_pseudo_field"},
		{":protocol on a GET", request(":protocol", "websocket"), 400, "bad_pseudo_field"},
		{"a method with a space", fields(":method", "G T", ":scheme", "https", ":authority", "h", ":path", "/"), 400, "bad_method"},
		{"a target with a space", fields(":method", "GET", ":scheme", "https", ":authority", "h", ":path", "/a b"), 400, "bad_target"},
		{"a target without a slash", fields(":method", "GET", ":scheme", "https", ":authority", "h", ":path", "a"), 400, "bad_target"},
		{"CONNECT", fields(":method", "CONNECT", ":authority", "h:1"), 501, "connect"},
		{"an upgrade that is not offered", fields(":method", "CONNECT", ":protocol", "ftp", ":scheme", "https", ":authority", "h", ":path", "/"), 501, "upgrade_not_offered"},
		{"two lengths", request("content-length", "1", "content-length", "2"), 400, "bad_content_length"},
		{"a length that is no number", request("content-length", "+1"), 400, "bad_content_length"},
		{"another expectation", request("expect", "bread"), 417, "expectation"},
		{"a huge head", request("a", huge), 431, "head_too_large"},
		{"a huge frame", appendFrameHeader(nil, frameHeaders, 1<<30), 431, "head_too_large"},
		{"many fields", request(many...), 431, "too_many_fields"},
		{"a body beyond the limit", append(fields(append(post, "content-length", "2000")...), data(strings.Repeat("x", 2000))...), 413, "body_too_large"},
		{"a body beyond the limit, of unknown length", append(fields(post...), data(strings.Repeat("x", 2000))...), 413, "body_too_large"},
		{"a body longer than announced", append(fields(append(post, "content-length", "2")...), data("12345")...), 400, "body_length"},
		{"a body shorter than announced", append(fields(append(post, "content-length", "9")...), data("12345")...), 400, "body_length"},
		{"no body where one was announced", fields(append(post, "content-length", "9")...), 400, "body_length"},
		{"a body in two frames", append(append(fields(append(post, "content-length", "9")...), data("12345")...), data("6789")...), 200, "ok"},
		{"trailers with a bad name", append(append(fields(post...), data("1")...), fields("a b", "c")...), 400, "bad_trailers"},
		{"trailers with a pseudo-field", append(append(fields(post...), data("1")...), fields(":path", "/")...), 400, "bad_pseudo_field"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := dialRaw(t, s, emptySettings)
			if h, body := readAnswer(t, r.open(tt.sent, true)); h.Status != tt.status || body != tt.reason {
				t.Errorf("%d %q, want %d %q", h.Status, body, tt.status, tt.reason)
			}
		})
	}
}

func TestFaultsThatEndTheConnection(t *testing.T) {
	s := serve(t, &Options{Handler: refusing(echo)})
	control := func(b ...byte) []byte { return append([]byte{streamControl}, b...) }
	settings := []byte{frameSettings, 0}
	for _, tt := range []struct {
		name    string
		control []byte
		request []byte
		want    ErrCode
	}{
		{"DATA before HEADERS", emptySettings, data("x"), FrameUnexpected},
		{"SETTINGS on a request stream", emptySettings, settings, FrameUnexpected},
		{"DATA behind trailers", emptySettings, append(append(request(), fields("a", "b")...), data("x")...), FrameUnexpected},
		{"a frame of HTTP/2", emptySettings, []byte{0x6, 0}, FrameUnexpected},
		{"a frame that is cut", emptySettings, append(request(), 0, 10, 1), FrameError},
		{"a head that is cut", emptySettings, request()[:12], FrameError},
		{"a reference to the dynamic table", emptySettings, []byte{frameHeaders, 3, 0, 0, 0x80}, DecompressionFailed},
		{"a section that needs inserts", emptySettings, []byte{frameHeaders, 2, 1, 0}, DecompressionFailed},
		{"an index that is none", emptySettings, []byte{frameHeaders, 4, 0, 0, 0xff, 0x40}, DecompressionFailed},
		{"no SETTINGS", control(frameGoAway, 1, 0), nil, MissingSettings},
		{"SETTINGS twice", control(append(settings, settings...)...), nil, FrameUnexpected},
		{"a setting twice", control(frameSettings, 4, 6, 1, 6, 1), nil, SettingsError},
		{"a setting of HTTP/2", control(frameSettings, 2, 4, 1), nil, SettingsError},
		{"a setting that is cut", control(frameSettings, 1, 6), nil, FrameError},
		{"extended CONNECT neither on nor off", control(frameSettings, 2, 8, 2), nil, SettingsError},
		{"HEADERS on the control stream", control(append(settings, frameHeaders, 0)...), nil, FrameUnexpected},
		{"a huge SETTINGS", control(append([]byte{frameSettings}, 0x80, 1, 0, 0)...), nil, ExcessiveLoad},
		{"a push stream", []byte{streamPush, 0}, nil, StreamCreationError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := dialRaw(t, s, tt.control)
			if tt.request != nil {
				r.open(tt.request, true)
			}
			if code := r.closed(); code != tt.want {
				t.Errorf("%v, want %v", code, tt.want)
			}
		})
	}
	t.Run("a second control stream", func(t *testing.T) {
		r := dialRaw(t, s, emptySettings)
		str, _ := r.qc.OpenUniStream()
		_, _ = str.Write(emptySettings)
		if code := r.closed(); code != StreamCreationError {
			t.Error(code)
		}
	})
	t.Run("the control stream ends", func(t *testing.T) {
		r := dialRaw(t, s, nil)
		str, _ := r.qc.OpenUniStream()
		_, _ = str.Write(emptySettings)
		_ = str.Close()
		if code := r.closed(); code != ClosedCriticalStream {
			t.Error(code)
		}
	})
	t.Run("an unknown stream is none", func(t *testing.T) {
		r := dialRaw(t, s, emptySettings)
		str, _ := r.qc.OpenUniStream()
		_, _ = str.Write(append([]byte{0x21}, bytes.Repeat([]byte{1}, 100)...))
		if h, _ := readAnswer(t, r.open(request(), true)); h.Status != 200 {
			t.Error(h.Status)
		}
	})
}
