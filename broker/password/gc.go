package password

import (
	"runtime"
	"runtime/metrics"
	"sync"
)

// gcTrigger bounds the memory that hashes leave for the garbage collector. Each hash allocates 19
// MiB, and the collector lets garbage grow to the size of the live heap. During 200 logins a
// process of 50 MiB with one slot grew to 180 MiB, and to 120 MiB with a gcTrigger. With a small
// live heap the collector runs often enough by itself. With a large one, garbage may grow to a
// quarter of it, so that collections stay rare.
type gcTrigger struct {
	mu     sync.Mutex
	cycles uint64 // collections at the last add
	bytes  uint64 // garbage since then
}

// minGarbage never causes a collection: two hashes.
const minGarbage = 2 * defaultMemory << 10

// add counts the garbage of a hash and runs the collector if it is due.
func (g *gcTrigger) add(bytes uint64) {
	sample := [...]metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample[:])
	cycles, live := sample[0].Value.Uint64(), sample[1].Value.Uint64()
	g.mu.Lock()
	if cycles != g.cycles {
		g.cycles, g.bytes = cycles, 0
	}
	g.bytes += bytes
	due := g.bytes >= max(minGarbage, live/4)
	if due {
		g.bytes = 0
	}
	g.mu.Unlock()
	if due {
		runtime.GC()
	}
}
