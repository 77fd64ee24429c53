package gateway

import (
	"os"
	"runtime"
)

// SpareProcessors sets GOMAXPROCS to two more than the number of cores, unless the environment sets
// it. A program that mainly runs a gateway should call it once, at its start.
//
// A shard does not yield its processor while it flushes, and holds it for a while during a system
// call. With only as many processors as cores, a message may then wait milliseconds for another
// shard.
func SpareProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.NumCPU() + 2)
	}
}
