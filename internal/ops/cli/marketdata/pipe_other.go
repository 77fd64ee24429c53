//go:build !unix

package marketdata

import "os"

// interruptible returns nil: reads of standard input cannot have a deadline here.
func interruptible(*os.File) (*os.File, error) { return nil, nil }
