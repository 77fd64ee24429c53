package fileowner

import (
	"errors"
	"io/fs"
	"testing"
)

func TestUnreadable(t *testing.T) {
	denied := &fs.PathError{Op: "open", Path: "/etc/rueda/tls.key", Err: fs.ErrPermission}
	const want = "open /etc/rueda/tls.key: permission denied: give it to the user that runs the gateway (chown), and run chmod 600"
	if err := Unreadable(denied); err.Error() != want || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%v, want %s", err, want)
	}
	if err := Unreadable(fs.ErrNotExist); err != fs.ErrNotExist {
		t.Error(err)
	}
	if err := Unreadable(nil); err != nil {
		t.Error(err)
	}
}
