//go:build !unix

package pgtest

import (
	"os"
	"os/exec"
)

// owner is not needed where notRoot finds no PostgreSQL that these tests know to run.
type owner struct{}

func notRoot() (owner, error) { return owner{}, errNone }

func (owner) run(*exec.Cmd) {}

func (owner) own(string) error { return nil }

func crash(p *os.Process) error { return p.Kill() }
