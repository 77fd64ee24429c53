//go:build unix

package pgtest

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// owner is whom the server runs as.
type owner struct {
	as *syscall.Credential // nil: this user
}

// notRoot is whom to run as: postgres refuses to be root.
func notRoot() (owner, error) {
	if os.Getuid() != 0 {
		return owner{}, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return owner{}, err
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	return owner{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, errors.Join(err1, err2)
}

// run has a command run as the owner, apart from what the terminal tells the tests.
func (o owner) run(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: o.as, Setpgid: true}
}

// own gives the owner a file.
func (o owner) own(path string) error {
	if o.as == nil {
		return nil
	}
	return os.Chown(path, int(o.as.Uid), int(o.as.Gid))
}

// crash has postgres end without a word to anybody, and its children with it.
func crash(p *os.Process) error { return p.Signal(syscall.SIGQUIT) }
