//go:build unix

package fileowner

import (
	"io/fs"
	"os"
	"syscall"
	"testing"
)

// file is a file of an owner.
type file struct {
	fs.FileInfo
	mode  fs.FileMode
	owner uint32
}

func (f file) Mode() fs.FileMode { return f.mode }
func (f file) Sys() any          { return &syscall.Stat_t{Uid: f.owner} }

func TestMounted(t *testing.T) {
	for _, c := range []struct {
		rule  string
		mode  fs.FileMode
		owner uint32
		uid   int
		want  bool
	}{
		{"a secret with an fsGroup", 0o440, 0, 65532, true},
		{"root may write", 0o640, 0, 65532, true},
		{"the group may write", 0o460, 0, 65532, false},
		{"everybody may read", 0o444, 0, 65532, false},
		{"everybody may run", 0o441, 0, 65532, false},
		{"the group may run", 0o450, 0, 65532, false},
		{"of the process itself", 0o440, 65532, 65532, false},
		{"of another user", 0o440, 1000, 65532, false},
		{"the process is root", 0o440, 0, 0, false},
		{"only root may read", 0o400, 0, 65532, false},
		{"a system without user ids", 0o440, 0, -1, false},
	} {
		if got := Mounted(file{mode: c.mode, owner: c.owner}, c.uid); got != c.want {
			t.Errorf("%s: %v", c.rule, got)
		}
	}
	name := t.TempDir() + "/secret"
	if err := os.WriteFile(name, nil, 0o440); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if owner, ok := Of(info); !ok || owner != os.Geteuid() {
		t.Errorf("owner %d, %v", owner, ok)
	}
}
