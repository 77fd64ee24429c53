// Package flock locks files and folders for one process. A lock ends with the process, even if it
// is killed. The package also reports whether the user of this process owns a file.
package flock

import "errors"

// ErrLocked means that another process, or another descriptor of this one, has the lock.
var ErrLocked = errors.New("locked by another process")
