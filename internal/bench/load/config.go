package load

import "github.com/ruedahq/rueda/internal/bench/proc"

// Config says what the connections are. It is the argument of the request "open".
type Config struct {
	Protocol string // a row of protocols; "": rueda
	Address  string // host:port, the host an IPv4 address
	Path     string // of the upgrade; "": /stream
	Host     string // header of the upgrade; "": Address

	Conns   int
	Tokens  []string // connection i presents Tokens[i % len]
	Sets    []Set    // and subscribes Sets[i % len]
	Sources int      // source addresses, from 127.0.0.2 on; 0: 16
	Opening int      // connections on their way to ready at a time; 0: 128

	ReceiveBuffer int    // SO_RCVBUF; 0: 128 KiB
	Sample        int    // latency of every so-manieth message; 0: 17, which is no multiple of a batch
	Board         string // file of the board; "": none
	Certificate   string // file of the server's authority: connections are TLS, each with goroutines of its own; "": plain
	Frontier      bool   // tell on the board which N every connection has; one instrument only
	Slow          int    // the first connections read slowly when asked to: their SO_RCVBUF is SlowBuffer
	SlowBuffer    int
}

// Set is what a connection subscribes.
type Set struct {
	Topic     string   // of servers that know one topic a connection
	Subscribe string   // the subscribe message
	Snapshots int      // R:true messages that belong to being ready
	Trades    []string // instruments whose trades must all arrive; *: all there are
}

// Opened is the answer to "open".
type Opened struct {
	Conns   int
	Epoch   string    // that an acknowledgement told of
	Seconds float64   // from the first connect until the last was ready
	Servers []float64 // processor seconds of the servers for it
	Self    float64
	Busy    float64
}

// Mark is the answer to "mark": counters up to this moment.
type Mark struct {
	At         float64 // seconds on the machine's monotonic clock
	Deliveries uint64  // data messages
	Bytes      uint64  // read, all frames
	Reads      uint64
	Conns      int // open and ready
	Faults     Faults
	Servers    []float64 // processor seconds of the servers asked for
	Self       float64   // and of the load
	Busy       float64   // and of the machine
	Pings      uint64
	Warnings   uint64
	Latency    *Latency       // since the last mark
	SlowAge    *Latency       // of the quotes of slow connections when the server's kernel took them, since the last mark
	SlowEnds   map[string]int // how slow connections ended, and how many
}

// Pids are the processes whose processor time is told; the argument of "mark".
type Pids struct {
	Pids []int
}

// Faults is what must not happen.
type Faults struct {
	Lost    uint64 // messages that a hole in N stands for
	Doubled uint64 // N that came before
	Unknown uint64 // messages that make no sense
	Closed  uint64 // connections that ended
	Late    uint64 // expected at the end and not there
	First   string // the first of all, in words
}

// Any says whether something is wrong.
func (f *Faults) Any() bool { return f.Lost|f.Doubled|f.Unknown|f.Closed|f.Late != 0 }

// Finish is the argument of "finish": it waits until every connection has the trades it is
// subscribed to.
type Finish struct {
	Base    map[string]uint32 // N of each instrument before the connections subscribed; none: 0
	Last    map[string]uint32 // N that each instrument ended with
	Seconds float64           // to wait at most
	Spare   int               // connections, the first ones, that are not looked at
}

// Finished is the answer: whether all was there, and what was not.
type Finished struct {
	Complete bool
	Faults   Faults
}

// Throttle is the argument of "throttle": how fast the Slow connections read from now on.
type Throttle struct {
	Conns int     // the first so many of them
	Part  float64 // of what each read a second between the last two marks; 0: nothing; under 0: all, as the others
}

// Handlers are the requests that a load program answers, by name.
type Handlers = map[string]proc.Handler
