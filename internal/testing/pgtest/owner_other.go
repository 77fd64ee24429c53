//go:build !unix

package pgtest

import (
	"os"
	"os/exec"
)

// owner is not needed on systems where these tests cannot run PostgreSQL.
type owner struct{}

func notRoot() (owner, error) { return owner{}, errNone }

func (owner) run(*exec.Cmd) {}

func (owner) own(string) error { return nil }

func crash(p *os.Process) error { return p.Kill() }
