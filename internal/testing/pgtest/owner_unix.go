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

// owner is the user that the server runs as.
type owner struct {
	as *syscall.Credential // nil: this user
}

// notRoot returns the user to run the server as, because postgres refuses to run as root.
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

// run makes a command run as the owner, in a process group that gets no signals of the terminal.
func (o owner) run(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: o.as, Setpgid: true}
}

// own makes the owner own a file.
func (o owner) own(path string) error {
	if o.as == nil {
		return nil
	}
	return os.Chown(path, int(o.as.Uid), int(o.as.Gid))
}

// crash ends postgres and its child processes at once, without a shutdown.
func crash(p *os.Process) error { return p.Signal(syscall.SIGQUIT) }
