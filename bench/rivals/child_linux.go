package main

import (
	"os/exec"
	"syscall"
)

// withParent has a program end when this process is killed.
func withParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
