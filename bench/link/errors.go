package link

import "errors"

// Errors that callers tell apart.
var (
	ErrPermission  = errors.New("no permission")
	ErrExists      = errors.New("there is such a link lab already")
	ErrNotThere    = errors.New("there is no such link lab")
	ErrUnsupported = errors.New("link labs need Linux")
)
