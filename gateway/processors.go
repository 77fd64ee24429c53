package gateway

import (
	"os"
	"runtime"
)

// SpareProcessors sets GOMAXPROCS to two more than the number of cores, unless the environment sets
// it. A shard that flushes does not yield its processor, and one in a system call holds it for a
// while. With as many processors as cores, a message then waits milliseconds for a shard that could
// run. A program that mainly runs a gateway should call it once.
func SpareProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.NumCPU() + 2)
	}
}
