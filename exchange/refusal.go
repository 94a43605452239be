package exchange

// Refusal is the verdict on a message that is not served: one value per kind,
// made once, compared by identity.
type Refusal struct {
	// Status is the answer's status code.
	Status int
	// Reason is the kind's name in log and metrics.
	Reason string
	// Text is what the client is told.
	Text string
	// Close tells that HTTP/1 must not read another request from the
	// connection, since it is not sure where one would begin.
	Close bool
}

func (r *Refusal) Error() string { return r.Reason + ": " + r.Text }

func malformed(reason, text string) *Refusal {
	return &Refusal{Status: 400, Reason: reason, Text: text, Close: true}
}

// The kinds of refusal.
var (
	RefuseRequestLine    = malformed("bad_request_line", "the request line is not 'method SP target SP version'")
	RefuseMethod         = malformed("bad_method", "the method is not a token")
	RefuseTarget         = malformed("bad_target", "the request target is not valid")
	RefuseLineEnd        = malformed("bad_line_end", "a line of the head does not end in CR LF")
	RefuseFieldName      = malformed("bad_field_name", "a field name is empty, is not a token, or is followed by white space")
	RefuseFieldValue     = malformed("bad_field_value", "a field value holds a control character")
	RefuseFolding        = malformed("obsolete_folding", "a field continues on a second line")
	RefuseHost           = malformed("bad_host", "the request names no host, several, or one that is not valid")
	RefuseLength         = malformed("bad_content_length", "Content-Length is not one decimal number")
	RefuseEncoding       = malformed("bad_transfer_encoding", "Transfer-Encoding is not exactly one 'chunked'")
	RefuseLengthAndTE    = malformed("length_and_encoding", "both Content-Length and Transfer-Encoding are given")
	RefuseChunk          = malformed("bad_chunk", "the chunked body is not valid")
	RefuseBodyLength     = malformed("body_length", "the body is shorter or longer than Content-Length says")
	RefusePseudo         = malformed("bad_pseudo_field", "the pseudo-header fields are not valid")
	RefuseConnectionData = malformed("connection_field", "a connection-specific field is not allowed here")
	RefuseUpgradeBody    = malformed("upgrade_with_body", "a request to upgrade has a body")
	RefuseTrailers       = malformed("bad_trailers", "the trailer section is not valid")

	RefuseVersion     = &Refusal{Status: 505, Reason: "bad_version", Text: "the HTTP version is not supported", Close: true}
	RefuseConnect     = &Refusal{Status: 501, Reason: "connect", Text: "CONNECT to other hosts is not offered here", Close: true}
	RefuseUpgrade     = &Refusal{Status: 501, Reason: "upgrade_not_offered", Text: "this protocol upgrade is not offered here"}
	RefuseExpectation = &Refusal{Status: 417, Reason: "expectation", Text: "the only expectation met here is 100-continue", Close: true}

	RefuseHeadSize   = &Refusal{Status: 431, Reason: "head_too_large", Text: "the request head is larger than this server allows", Close: true}
	RefuseFieldCount = &Refusal{Status: 431, Reason: "too_many_fields", Text: "the request has more fields than this server allows", Close: true}
	RefuseTargetSize = &Refusal{Status: 414, Reason: "target_too_long", Text: "the request target is longer than this server allows", Close: true}
	RefuseBodySize   = &Refusal{Status: 413, Reason: "body_too_large", Text: "the request body is larger than this server allows", Close: true}
	RefuseSlowHead   = &Refusal{Status: 408, Reason: "head_timeout", Text: "the request head did not arrive in time", Close: true}
	RefuseSlowBody   = &Refusal{Status: 408, Reason: "body_timeout", Text: "the request body arrives too slowly", Close: true}
	RefuseMisdirect  = &Refusal{Status: 421, Reason: "misdirected", Text: "this connection was not made for that host"}
)

// Limits on a request, the same for every protocol. Zero means none.
type Limits struct {
	// HeadBytes bounds the head as it is decoded, start line included.
	HeadBytes int
	// Fields bounds the number of fields.
	Fields int
	// BodyBytes bounds the body.
	BodyBytes int64
}
