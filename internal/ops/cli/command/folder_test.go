package command

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/ruedahq/rueda/gateway"
)

// TestExplainFolder checks which errors get a next step.
func TestExplainFolder(t *testing.T) {
	pathError := func(op, path string, err error) error {
		return fmt.Errorf("database: %w", &fs.PathError{Op: op, Path: path, Err: err})
	}
	for _, tt := range []struct {
		err    error
		folder string
		advice string // "": none
	}{
		{pathError("open", "/d/x/rueda.db", syscall.EACCES), "", "Choose a folder that this user can create and write (--data)."},
		{pathError("open", "/d/x/lock", syscall.EROFS), "/d/x", "Choose a folder that this user can create and write (--data)."},
		{pathError("mkdir", "/d", syscall.ENOENT), "/d/x", "Choose a folder that this user can create and write (--data)."},
		{pathError("write", "/d/x/1.seg", syscall.ENOSPC), "/d/x", "Free disk space, or choose a folder on another disk (--data)."},
		{fmt.Errorf("%w /d/x", gateway.ErrJournalInUse), "/d/x", "Stop that gateway, or choose another folder (--data)."},
		{pathError("open", "/etc/tls.key", syscall.EACCES), "/d/x", ""},
		{pathError("open", "/d/xy", syscall.EACCES), "/d/x", ""},
		{pathError("open", "/d/x/keys.json", syscall.EIO), "/d/x", ""},
		{errors.New("another"), "", ""},
	} {
		_, _, advice := Outcome(t.Context(), ExplainFolder(tt.err, tt.folder, "--data"))
		if advice != tt.advice {
			t.Errorf("%v in %q: advice %q, want %q", tt.err, tt.folder, advice, tt.advice)
		}
	}
}
