package gateway

import (
	"os"
	"runtime"
)

// SpareProcessors lets the program run goroutines on two threads more than there are cores,
// unless GOMAXPROCS is set in the environment. A shard that sweeps does not leave
// its processor, and one that waits in a system call holds it for a while: with as many
// processors as cores, a message then waits milliseconds for a shard that could run. A
// program that embeds a gateway and does little else had better call it, once.
func SpareProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.NumCPU() + 2)
	}
}
