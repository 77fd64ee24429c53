package load

import "github.com/ruedahq/rueda/bench/proc"

// Config describes the connections. It is the argument of the request "open".
type Config struct {
	Protocol string // entry of protocols; "": rueda
	Address  string // host:port with an IPv4 address
	Path     string // path of the upgrade; "": /stream
	Host     string // header of the upgrade; "": Address

	Conns   int
	Tokens  []string // connection i uses Tokens[i % len]
	Sets    []Set    // and Sets[i % len]
	Sources int      // source addresses, from 127.0.0.2; 0: 16
	Opening int      // concurrent connection attempts; 0: 128

	ReceiveBuffer int    // SO_RCVBUF; 0: 128 KiB
	Sample        int    // interval of latency samples in messages; 0: 17, which is no multiple of a batch
	Board         string // file of the board; "": none
	Certificate   string // file of the server's authority: connections use TLS, each with its own goroutines; "": no TLS
	Frontier      bool   // report on the board which N all connections have; for one instrument only
	Slow          int    // number of connections that may read slowly, the first ones, with SO_RCVBUF SlowBuffer
	SlowBuffer    int
}

// Set is the subscription of a connection.
type Set struct {
	Topic     string   // for servers with one topic per connection
	Subscribe string   // subscribe message
	Snapshots int      // R:true messages before the connection is ready
	Trades    []string // instruments whose trades must all arrive; *: all
}

// Opened is the answer to "open".
type Opened struct {
	Conns   int
	Epoch   string    // from an acknowledgement
	Seconds float64   // from the first connect until the last connection was ready
	Servers []float64 // processor seconds of the servers for it
	Self    float64
	Busy    float64
}

// Mark is the answer to "mark": counters up to now.
type Mark struct {
	At         float64 // seconds of the machine's monotonic clock
	Deliveries uint64  // data messages
	Bytes      uint64  // read bytes of all frames
	Reads      uint64
	Conns      int // open and ready
	Faults     Faults
	Servers    []float64 // processor seconds of the given servers
	Self       float64   // processor seconds of the load
	Busy       float64   // processor seconds of the machine
	Pings      uint64
	Warnings   uint64
	Latency    *Latency       // since the last mark
	SlowAge    *Latency       // age of quotes of slow connections when the server's kernel accepted them, since the last mark
	SlowEnds   map[string]int // number of slow connections by the way they ended
}

// Pids are the processes whose processor time is reported; the argument of "mark".
type Pids struct {
	Pids []int
}

// Faults counts faults.
type Faults struct {
	Lost    uint64 // messages missing in gaps of N
	Doubled uint64 // repeated N
	Unknown uint64 // invalid messages
	Closed  uint64 // ended connections
	Late    uint64 // missing at the end
	First   string // description of the first fault
}

// Any reports whether there are faults.
func (f *Faults) Any() bool { return f.Lost|f.Doubled|f.Unknown|f.Closed|f.Late != 0 }

// Finish is the argument of "finish", which waits until every connection has all trades of its
// subscription.
type Finish struct {
	Base    map[string]uint32 // N of each instrument before the subscriptions; no entry: 0
	Last    map[string]uint32 // final N of each instrument
	Seconds float64           // maximum wait
	Spare   int               // number of connections, the first ones, that are not checked
}

// Finished is the answer to "finish": whether everything has arrived, and what is missing.
type Finished struct {
	Complete bool
	Faults   Faults
}

// Throttle is the argument of "throttle": the speed of slow connections from now on.
type Throttle struct {
	Conns int     // number of connections, the first ones
	Part  float64 // of what each has read per second between the last two marks; 0: nothing; negative: everything
}

// Handlers are the request handlers of a load program by name.
type Handlers = map[string]proc.Handler
