package fileowner

import (
	"errors"
	"fmt"
	"io/fs"
)

// Unreadable adds the next step to an error of a secret file that the user of this process may not
// read. It returns other errors as they are.
func Unreadable(err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return fmt.Errorf("%w: give it to the user that runs the gateway (chown), and run chmod 600", err)
}
