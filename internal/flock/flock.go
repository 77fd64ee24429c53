// Package flock locks files and folders for one process. A lock ends with the process,
// however that ends. It also tells whose a file is.
package flock

import "errors"

// ErrLocked means that another process, or another descriptor of this one, has the lock.
var ErrLocked = errors.New("locked by another process")
