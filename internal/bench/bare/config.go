package bare

import "time"

// Config is the argument of "start".
type Config struct {
	Threads   int // 0: one a core
	Snapshots int // messages behind the acknowledgement of a subscribe
	Ping      time.Duration
}

// Started is its answer.
type Started struct {
	Address string
	Limits  string
}
