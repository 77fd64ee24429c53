package password

import (
	"runtime"
	"runtime/metrics"
	"sync"
)

// garbage bounds the memory that hashes leave behind. Each allocates its 19 MiB
// anew, and the collector by itself lets garbage grow to the size of the live heap:
// during 200 logins a process of 50 MiB with one slot grew to 180 MiB, and to 120 with
// this. While the live heap is small the collector comes often enough by itself and
// this does nothing; while it is large, garbage may grow to a quarter of it, so that
// collections stay rare enough.
type garbage struct {
	mu     sync.Mutex
	cycles uint64 // collections up to the last add
	bytes  uint64 // left behind since
}

// minGarbage is always let be: two hashes.
const minGarbage = 2 * defaultMemory << 10

// add notes that a hash left so many bytes behind, and collects if they are due.
func (g *garbage) add(bytes uint64) {
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
