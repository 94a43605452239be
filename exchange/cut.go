package exchange

// CutError tells that a client ended its connection in the middle of a request that
// was not yet an exchange, so that nothing else tells of it.
type CutError struct {
	// Reason is CutHead or CutBody.
	Reason string
	// Err is what the read gave.
	Err error
}

// Reasons of a CutError, as log and metrics have them.
const (
	CutHead = "head_cut"
	CutBody = "body_cut"
)

func (e *CutError) Error() string { return e.Reason + ": " + e.Err.Error() }

// Unwrap gives the error of the read.
func (e *CutError) Unwrap() error { return e.Err }
