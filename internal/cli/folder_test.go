package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
		_, _, advice := outcome(t.Context(), explainFolder(tt.err, tt.folder, "--data"))
		if advice != tt.advice {
			t.Errorf("%v in %q: advice %q, want %q", tt.err, tt.folder, advice, tt.advice)
		}
	}
}

// TestFolderErrors checks that the commands name a folder that they cannot use, and the next step.
func TestFolderErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	used := filepath.Join(t.TempDir(), "used")
	startDev(t, "--data", used)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"dev", "--listen", "127.0.0.1:0", "--data", filepath.Join(file, "x")}, "Choose a folder that this user can create and write (--data)."},
		{[]string{"user", "add", "ana", "--password-stdin", "--data", file}, "Choose a folder that this user can create and write (--data)."},
		{[]string{"dev", "--listen", "127.0.0.1:0", "--data", used}, "Stop that gateway, or choose another folder (--data)."},
	} {
		talk := &transcript{}
		status := run(t.Context(), tt.args, streams{in: strings.NewReader("a long enough password\n"), out: io.Discard, talk: talk})
		text := talk.String()
		if folder := tt.args[len(tt.args)-1]; status != exitError || !strings.Contains(text, folder) || !strings.Contains(text, tt.want) {
			t.Errorf("%v: status %d:\n%s", tt.args, status, text)
		}
	}
}
