package metrics

import (
	"time"

	"github.com/ruedahq/rueda/internal/base/histogram"
)

// Snapshot has the figures of a gateway at one time. Counters count from the start of the process.
type Snapshot struct {
	Version string
	Ready   bool // GET /readyz answers 200

	Clients  Clients
	Shards   []bool // for each shard, whether it did not answer in time
	Delivery histogram.Histogram

	Requests       []Requests
	RequestTime    histogram.Histogram // except for streams
	Grants         []Count             // logins and refreshes, by grant and result
	TokenChecks    []Count             // of the stream, by result
	Feeds          []Feed
	Market         Market
	Journal        *Journal   // nil: there is none
	Cluster        *Cluster   // nil: the gateway is no node of a cluster
	Passwords      *Passwords // nil: the user base checks them
	UserBase       *UserBase  // nil: the built-in user base
	DatabaseTime   histogram.Histogram
	DatabaseFailed uint64 // transactions
	Keys           []Key
	Certificates   []Certificate
	Disks          []Disk
	Panics         uint64
}

// Count is a counter with up to two labels.
type Count struct {
	Labels [2]string // the second may be ""
	N      uint64
}

// Clients has the figures of the connections of the stream.
type Clients struct {
	Open            int
	Unauthenticated int               // of them
	Blocked         int               // of them, with a full socket
	Limit           int               // of open connections
	PendingBytes    int64             // behind full sockets
	Opened          uint64            // ever
	Closed          map[string]uint64 // by reason
	Slow            uint64            // that began to read too slowly
	Pauses          uint64            // of reading clients that sent too much
	Refused         uint64            // handshakes above the limit of an address
	Writes          uint64
	Bytes           uint64 // written

	Backlog         int64 // bytes that wait for slow clients
	BacklogSessions int64 // clients with such bytes
}

// Requests counts the answers of one route with one status.
type Requests struct {
	Route  string
	Status int
	Reason string // "": no error
	N      uint64
}

// Feed has the figures of one feed.
type Feed struct {
	Name     string
	Up       bool
	Events   uint64
	Refused  uint64
	Failures uint64
	Newest   time.Time         // zero: no event yet
	Suspect  map[string]uint64 // how often it looked wrong, by kind
}

// Market has the figures of the hub.
type Market struct {
	Instruments int
	Topics      int
	Position    uint64
	Committed   uint64
	Memory      int64 // that the limit counts
	MemoryLimit int64
	Relief      int // steps against full memory
	Commits     histogram.Histogram
	LongestWait time.Duration // for the lock, in about the last minute

	Messages   uint64 // that a shard has read from a topic
	Deliveries uint64 // those messages, once for each subscription
	Conflated  uint64 // times that waiting messages of a client became the newest state
	Resumes    uint64 // subscriptions that continued after a reconnection
	Lost       uint64 // resumes with a range that was not stored
}

// Journal has the figures of the journal.
type Journal struct {
	Suspended bool
	Days      int
	Bytes     int64
	Rows      uint64
}

// Cluster has the figures of a node of a cluster.
type Cluster struct {
	Connected bool          // to the log
	Leads     bool          // it is the sequencer
	Current   bool          // it has what the log has
	Term      uint64        // counts the sequencers
	Behind    uint64        // messages of the log that it has not handled
	Queued    int           // bytes of rows that wait for the log
	Lag       time.Duration // this machine's clock minus the log's clock in the newest batch
	LeaseAge  time.Duration // since the lease was renewed

	DaysDiffer int // closed days that differ from those of another node, or cannot be read

	DaysMissing int // earlier days that are still to be copied
}

// Passwords has the figures of the slots for password checks.
type Passwords struct {
	Running int
	Waiting int
	Refused uint64
	Hashed  uint64
}

// UserBase has the figures of a user base on the network.
type UserBase struct {
	State    string // of the circuit breaker: closed, open or half-open
	InFlight int
}

// Key is a key that signs access tokens, or did.
type Key struct {
	State   string
	Created time.Time
	Since   time.Time // in this state
	Until   time.Time // zero: no end
}

// Certificate is a TLS certificate in use.
type Certificate struct {
	Listener string // clients or admin
	Expires  time.Time
}

// Disk is a file system with data of the gateway.
type Disk struct {
	Folder string // data or journal
	Free   uint64
	Size   uint64
}
