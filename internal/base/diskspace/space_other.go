//go:build !linux && !darwin

package diskspace

import "errors"

// Of returns errors.ErrUnsupported: on this system the free space is not known.
func Of(string) (free, size uint64, err error) { return 0, 0, errors.ErrUnsupported }
