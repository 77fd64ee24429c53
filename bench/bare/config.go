package bare

import "time"

// Config is the argument of "start".
type Config struct {
	Threads   int // 0: one for each core
	Snapshots int // messages after the acknowledgement of a subscribe
	Ping      time.Duration
}

// Started is the answer to "start".
type Started struct {
	Address string
	Limits  string
}
