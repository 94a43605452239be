package handshake

// News tells what is worth telling of a source that is looked at now and then: each
// change, and a failure once, until it is another one or over. The zero value is ready;
// it is not safe for concurrent use.
type News struct {
	failed string
}

// Worth reports whether the outcome of a look is to be told of: something changed, or
// the look failed with err, and the one before did not fail so.
func (n *News) Worth(changed bool, err error) bool {
	before := n.failed
	n.failed = ""
	if err != nil {
		n.failed = err.Error()
	}
	return changed || n.failed != "" && n.failed != before
}
