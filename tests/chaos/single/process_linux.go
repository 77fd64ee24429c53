package single

import (
	"os/exec"
	"syscall"
)

// endWithParent ends the process when the test ends, however that happens.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
