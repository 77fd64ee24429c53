package gateway

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/market"
)

// Config is what a Gateway is made of. The zero value of each field means what its
// comment says, and the zero Config is a gateway in memory without users or a market.
type Config struct {
	// Listen is the one address of REST and the stream; "": 127.0.0.1:8080.
	// Port 0 takes a free one, which OnReady tells.
	Listen string
	// Listener takes the connections instead, whatever its address; nil: Listen is
	// opened. Run closes it.
	Listener net.Listener
	// TLS are the certificate files; zero: plain HTTP, on a loopback address only.
	TLS TLS
	// Insecure allows plain HTTP on other addresses too, for a gateway behind a proxy that
	// ends TLS.
	Insecure bool
	// Origins are the web origins (https://app.broker.example) whose pages may
	// call; none: those of the gateway's own host.
	Origins []string
	// Proxies are the networks of the proxies in front of the gateway, whose Forwarded and
	// X-Forwarded-For are believed; none: a client's address is that of its connection.
	Proxies []netip.Prefix
	// PublicURL is where clients reach the gateway, such as https://api.broker.example, for OAuth
	// libraries that look for the endpoints; "": where it listens if that is this machine alone,
	// else those libraries are not told.
	PublicURL string
	// Admin is the listener of the administrator; zero: there is none.
	Admin Admin

	// Data is where tokens, and the users unless Users is set, are kept; nil: in memory.
	// Whoever opened it closes it after Run.
	Data *Data

	// Users is the user base; nil: that of Data. With a Users of your own,
	// Accounts and WatchUsers are yours too.
	Users broker.Users
	// UsersType is what Users is called in the log; "": local, or custom where Users is set.
	UsersType string
	// Accounts are the users' accounts; nil: nobody has any.
	Accounts broker.Accounts
	// WatchUsers calls changed whenever the user base may have changed, and
	// returns nil when ctx ends. nil: a change is noticed when a user is read again,
	// within a minute.
	WatchUsers func(ctx context.Context, changed func()) error

	// Markets are the venues, with terms and hours; a market not named here is
	// listed with its first instrument and is always open.
	Markets []market.Market
	// Instruments are listed from the start; feeds may list more.
	Instruments []market.Instrument
	// Feeds give the events. Each is started again when it fails.
	Feeds []Feed

	Auth    Auth
	Stream  Stream
	Limits  Limits
	Journal Journal
	Audit   Audit

	// Faults makes something go wrong in the market because a client asked for it: name is one of
	// the words of wire.SimFaults that are of the market, id the instrument, FAKE|SIM|CI where the
	// client named none. It returns at once, with a sentence about what will happen. An error that
	// is market.ErrUnknownInstrument or a *wire.Fault is told as that, another as
	// unsupported_option.
	//
	// With it this is a development gateway, where every client may ask for faults of its own
	// connections too, and those with the scope admin for these. nil: it is not, and all are
	// refused.
	Faults func(name string, id market.InstrumentID) (msg string, err error)

	// OnJournal is called once by New, after the journal is opened and before anything is
	// published. newest returns the publication time of the newest row of any of the instruments,
	// or the zero time if the journal has none. New returns the error of OnJournal. nil: no call.
	OnJournal func(newest func(ids []market.InstrumentID) (time.Time, error)) error

	// Drain is how long a gateway that ends goes on feeding its sockets while it
	// sends them away one by one; 0: 10 s.
	Drain time.Duration

	// Version is told to clients; "": devel.
	Version string
	// Logger takes the log; nil: discarded.
	Logger *slog.Logger
	// OnReady is called once, when requests are answered; nil: nobody is told.
	OnReady func(Bound)
}

// TLS names the files of a certificate, in PEM. The zero TLS is plain HTTP. Changed files are
// reloaded without a restart.
type TLS struct {
	Certificate string        // the chain, the server's own certificate first
	Key         string        // its private key, which only the owner and the group may read
	Reload      time.Duration // interval between two checks for changes; 0: 10 s
}

// Bound is where a gateway that is ready can be reached.
type Bound struct {
	Address string // 127.0.0.1:8080
	REST    string // http://127.0.0.1:8080
	Stream  string // ws://127.0.0.1:8080/stream
	Admin   string // 127.0.0.1:8081; "": there is no such listener
}

// Auth are the settings of tokens.
type Auth struct {
	Issuer       string        // iss of access tokens; "": rueda
	Audience     string        // aud of access tokens; "": rueda
	AccessTTL    time.Duration // 0: 24 h
	RefreshTTL   time.Duration // from the last answer that carried the token; 0: 30 days
	FamilyMaxAge time.Duration // end of a login however often it is refreshed; 0: none
	Rotation     string        // activation, or strict; "": activation
	MaxSessions  int           // logins of a user at a time, beyond which that used least lately ends; 0: 100
	GracePeriod  time.Duration // in which a dead refresh token is an accident, not a theft; 0: 30 s
}

// Stream are the settings of the stream.
type Stream struct {
	AuthTimeout   time.Duration   // for the first auth_token; 0: 10 s
	PingInterval  time.Duration   // 0: 20 s
	PongTimeout   time.Duration   // 0: 30 s, the specification's
	KeepExpired   bool            // leave sockets open past the end of their token
	BookWildcards bool            // allow * in order_book subscriptions
	TradesKept    int             // rows an instrument, for resume; 0: 10,000
	TradesBytes   int64           // of all rows kept; 0: 256 MiB
	MaxWaiting    int             // bytes that may wait for one client; 0: 1 MiB
	MaxAge        time.Duration   // how old a trade that waits may get; 0: 5 s
	FlushInterval time.Duration   // between two writes of data to a socket under load; 0: 5 ms; under 0: each event at once
	PerTurn       int             // messages of an instrument that go out in one write while few wait, for measurements; 0: all
	SendBuffer    int             // SO_SNDBUF of a socket; 0: 64 KiB
	IOUring       bool            // hand writes to the kernel by io_uring, where it has one
	PumpTLS       bool            // serve TLS by goroutines rather than on the event loop
	MaxBacklog    int             // bytes of output that waits for all slow clients together; 0: 256 MiB
	Memory        int64           // bytes of rings, rows kept, replays and waiting output together; 0: twice TradesBytes and MaxBacklog, at least 1 GiB
	Delays        []time.Duration // delays at which entitlements may grant data, in whole seconds; none: at once alone
	DelayBytes    int64           // of the events held back for a delay, in memory; 0: 1 GiB
}

// memory is Memory, or its default.
func (s *Stream) memory() int64 {
	if s.Memory > 0 {
		return s.Memory
	}
	return max(1<<30, 2*cmp.Or(s.TradesBytes, 256<<20)+cmp.Or(int64(s.MaxBacklog), 256<<20))
}

// Limits bound what one user, address or client may take. Those of a user's own,
// where the user base gives any, come first.
type Limits struct {
	Connections        int // sockets a user; 0: 8
	Subscriptions      int // identifiers a socket; 0: 2,000
	MessagesPerSecond  int // client messages a socket; 0: 20
	MessageBytes       int // of a client's message; 0: 64 KiB
	RequestsPerMinute  int // REST requests a user; 0: 600
	LoginsPerMinute    int // failed grants an address; 0: 10
	LoginBurst         int // as many at once; 0: 20
	Logins             Logins
	Sockets            int // in all; 0: 20,000
	SocketsWaiting     int // of one address, before they authenticate; 0: 32
	Handshakes         int // of an address at once; 0: 200
	Requests           int // connections for requests; the oldest idle one makes room; 0: 10,000
	RequestsPerAddress int // of them, of one address that is no proxy's; 0: 1,000
	HistoryReaders     int // questions about the past that are answered at once; 0: one fewer than cores
	HistoryPerUser     int // of one user, with those that wait; 0: 4
}

// Logins bound the failures of logins further, and refreshes.
type Logins struct {
	NetworkPerMinute   int // failed grants of an IPv4 /24 or IPv6 /48; 0: 10 times those of an address
	NetworkBurst       int // as many at once; 0: 10 times those of an address
	GlobalPerMinute    int // failed grants in all; 0: 60 times those of an address
	GlobalBurst        int // as many at once; 0: 60 times those of an address
	AccountFree        int // wrong passwords of an account before it has to wait; 0: 5
	RefreshesPerMinute int // refreshes of one login; 0: 30
	RefreshBurst       int // as many at once; 0: 100
}

// Audit are the settings of the audit log.
type Audit struct {
	Days int // how long its rows are kept; 0: 400
}

// Journal are the settings of the journal: what the stream told, on disk, for history, for
// clients that resume after hours or a restart, and for export.
type Journal struct {
	Folder  string        // made where there is none; "": no journal
	Segment int64         // bytes of a file before the next is begun; 0: 256 MiB
	Sync    time.Duration // the disk is waited for so often; 0: 1 s
	Days    int           // whole days kept; 0: 30
	Bytes   int64         // of whole days kept, the oldest go first; 0: 64 GiB
}
