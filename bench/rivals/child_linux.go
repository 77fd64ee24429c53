package main

import (
	"os/exec"
	"syscall"
)

// withParent makes a program end when this process is killed.
func withParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
