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

// Config configures a Gateway. The comment of each field states the meaning of its zero value. With
// the zero Config, a gateway runs in memory without users or markets.
type Config struct {
	// Listen is the address of REST and the stream; "": 127.0.0.1:8080. For port 0 the system
	// chooses a free port, which OnReady reports.
	Listen string
	// Listener, if it is set, accepts the connections instead of Listen, on any address. Run closes
	// it.
	Listener net.Listener
	// TLS contains the names of the certificate files. The zero TLS means plain HTTP, on a loopback
	// address only.
	TLS TLS
	// Insecure allows plain HTTP on any address, for a gateway behind a proxy that terminates TLS.
	Insecure bool
	// Origins lists the web origins, such as https://app.broker.example, whose pages may call the
	// gateway. If nil, only pages from the gateway's own host may.
	Origins []string
	// Hosts lists names of the gateway, besides the host of PublicURL, IP addresses and localhost.
	// If Origins is empty, requests of web pages with another Host are refused. So a page whose
	// name was made to resolve to the gateway (DNS rebinding) cannot use it. If Hosts and PublicURL
	// are empty, only a gateway on a loopback address without Proxies refuses other names.
	Hosts []string
	// Proxies lists the networks of trusted proxies, whose Forwarded and X-Forwarded-For headers
	// are used. If nil, the client's address is that of its connection.
	Proxies []netip.Prefix
	// PublicURL is the URL at which clients reach the gateway, such as https://api.broker.example.
	// OAuth libraries use it to discover the endpoints. If it is empty, the URL of a loopback
	// address is used; on any other address, discovery is not possible.
	PublicURL string
	// HSTSSubdomains adds includeSubDomains to the header Strict-Transport-Security. Answers have
	// this header with TLS, or if PublicURL begins with https.
	HSTSSubdomains bool
	// SecurityContact is the URI for reports of vulnerabilities in /.well-known/security.txt, such
	// as mailto:security@broker.example; "": there is no such file.
	SecurityContact string
	// Console configures the web page for users at /. The zero Console serves none.
	Console Console
	// ClientDownloads serves the page /client/ and the packages of the clients for pip and npm.
	ClientDownloads bool
	// Admin configures the listener for administrators. The zero Admin opens none.
	Admin Admin

	// Data stores tokens and, unless Users is set, users. If nil, they are kept in memory. The
	// program that opens Data closes it after Run.
	Data *Data

	// Users is the user base; nil: that of Data. If Users is set, Accounts and WatchUsers do not
	// come from Data either.
	Users broker.Users
	// UsersType describes Users in the log; "": local, or custom if Users is set.
	UsersType string
	// Accounts returns the accounts of users; nil: no user has any.
	Accounts broker.Accounts
	// WatchUsers calls changed whenever the user base may have changed, and returns nil when ctx
	// ends. If it is nil, a change takes effect within a minute, when the user is read again.
	WatchUsers func(ctx context.Context, changed func()) error

	// Markets lists the markets with their terms and hours. A market that is not in the list is
	// added with its first instrument and is always open.
	Markets []market.Market
	// Instruments lists the instruments that exist from the start. Feeds may add more.
	Instruments []market.Instrument
	// Feeds lists the sources of events. Each is restarted after a failure.
	Feeds []Feed

	Auth    Auth
	Stream  Stream
	Limits  Limits
	Journal Journal
	Cluster Cluster
	Audit   Audit

	// Faults injects a fault into the market at a client's request. name is one of the words of
	// wire.SimFaults about the market. id is the instrument, or FAKE|SIM|CI if the request names
	// none. Faults must return at once, with a sentence that describes what will happen. An error
	// that is market.ErrUnknownInstrument or a *wire.Fault is sent to the client unchanged, and any
	// other error as unsupported_option.
	//
	// If Faults is set, the gateway is a development gateway: clients may request faults of their
	// own connections, and clients with the scope admin also faults of the market. If it is nil,
	// all such requests are refused.
	Faults func(name string, id market.InstrumentID) (msg string, err error)

	// Speed sets how many seconds pass on a simulated market per second, at the request of a client
	// with the scope admin. It returns the current number. 0 changes nothing. If Speed is nil, such
	// requests are refused.
	Speed func(speed market.Size) (now market.Size, err error)

	// OnJournal is called once by New, after the journal is opened and before any event is
	// published. newest returns the publication time of the newest row of the given instruments, or
	// the zero time without such a row. New returns the error of OnJournal. It may be nil.
	OnJournal func(newest func(ids []market.InstrumentID) (time.Time, error)) error

	// OnStart is called by New while it reads the journal, with the step, how much of it is done,
	// and the total. It must not block. It may be nil.
	OnStart func(step StartStep, done, total int64)

	// Drain is how long the gateway takes to close its sockets one by one during shutdown. The
	// sockets receive data until they are closed. 0 means 10 s.
	Drain time.Duration

	// Version is the version that the gateway reports to clients; "": devel.
	Version string
	// Logger writes the log; nil: discarded.
	Logger *slog.Logger
	// LogLevel is the level of Logger. Operators may change it while the gateway runs, unless it is
	// nil.
	LogLevel *slog.LevelVar
	// Reload reads the configuration again at an operator's request, and calls Gateway.Change. Each
	// line of its error describes a mistake, in which case nothing has changed. If it is nil,
	// operators cannot reload the configuration.
	Reload func(ctx context.Context, by Caller) (Reloaded, error)
	// OnReady is called once, when the gateway answers requests. It may be nil.
	OnReady func(Bound)
}

// TLS contains the names of certificate files in PEM. The zero TLS means plain HTTP. The gateway
// loads the files again when they change.
type TLS struct {
	Certificate string        // the chain, the server's own certificate first
	Key         string        // its private key, which only the owner and the group may read
	Reload      time.Duration // interval between two checks for changes; 0: 10 s
	MinVersion  uint16        // oldest version of TLS, as in crypto/tls; 0: 1.2
}

// Console configures the console, a web page for users at /, with a login of its own. If
// Config.Origins is set, it works only at PublicURL.
type Console struct {
	Serve              bool
	Username, Password string        // a login that it suggests to every visitor; "": none
	Idle               time.Duration // how long its tokens live, and how long it stays signed in unused; 0: 12 h
}

// Bound reports the addresses of a gateway when it is ready.
type Bound struct {
	Address string // 127.0.0.1:8080
	REST    string // http://127.0.0.1:8080
	Stream  string // ws://127.0.0.1:8080/stream
	Admin   string // 127.0.0.1:8081; "": no listener for administrators
	Silent  string // names of the feeds that have published nothing yet; "": none
}

// Auth configures tokens and logins.
type Auth struct {
	Issuer       string        // iss of access tokens; "": PublicURL, or rueda without one
	Audience     string        // aud of access tokens; "": rueda
	AccessTTL    time.Duration // 0: 24 h
	RefreshTTL   time.Duration // after the last answer that contained the token; 0: 30 days
	FamilyMaxAge time.Duration // maximum age of a login, however often it is refreshed; 0: 90 days
	Rotation     string        // activation, or strict; "": activation
	MaxSessions  int           // concurrent logins of a user; one more ends the least recently used; 0: 100
	GracePeriod  time.Duration // time within which reuse of a dead refresh token counts as an accident, not theft; 0: 30 s
}

// Stream configures the stream of market data.
type Stream struct {
	AuthTimeout      time.Duration   // for the first auth_token; 0: 10 s
	PingInterval     time.Duration   // 0: 20 s
	PongTimeout      time.Duration   // 0: 30 s, the specification's
	KeepExpired      bool            // leave sockets open past the end of their token
	BookWildcards    bool            // allow * in order_book subscriptions
	TradesKept       int             // recent rows in memory of an instrument, for resume; 0: 10,000
	TradesBytes      int64           // of all recent rows; 0: 256 MiB
	MaxWaiting       int             // bytes that may be pending for one client; 0: 1 MiB
	MaxAge           time.Duration   // maximum age of a pending trade; 0: 5 s
	FlushInterval    time.Duration   // between two writes of data to a socket under load; 0: 5 ms; negative: each event at once
	MessagesPerFlush int             // largest number of messages of an instrument in one write while few are pending, for measurements; 0: no limit
	SendBuffer       int             // SO_SNDBUF of a socket; 0: 64 KiB
	IOUring          bool            // submit writes by io_uring if the kernel has it
	TLSByGoroutines  bool            // serve TLS by goroutines instead of the event loop
	MaxBacklog       int             // bytes of pending output of all slow clients together; 0: 256 MiB
	Memory           int64           // bytes of rings, recent rows, replays and pending output together; 0: twice TradesBytes and MaxBacklog, at least 1 GiB
	Delays           []time.Duration // delays at which entitlements may grant data, in whole seconds; none: real time only; delays need a journal
}

// memory returns s.Memory, or its default if that is 0.
func (s *Stream) memory() int64 {
	if s.Memory > 0 {
		return s.Memory
	}
	return max(1<<30, 2*cmp.Or(s.TradesBytes, 256<<20)+cmp.Or(int64(s.MaxBacklog), 256<<20))
}

// Limits bounds what users, addresses and clients may do. A user base may set other limits for a
// user.
type Limits struct {
	Connections               int // sockets of a user; 0: 8
	Subscriptions             int // identifiers of a socket; 0: 2,000
	MessagesPerSecond         int // client messages of a socket; 0: 20
	MessageBytes              int // of a client message; 0: 64 KiB
	RequestsPerMinute         int // REST requests of a user; 0: 600
	LoginsPerMinute           int // failed logins of an address; 0: 10
	LoginBurst                int // burst; 0: 20
	Logins                    Logins
	Sockets                   int // sockets in total; 0: 20,000
	UnauthenticatedPerAddress int // unauthenticated sockets of one address; 0: 32
	Handshakes                int // simultaneous handshakes of an address; 0: 200
	Requests                  int // connections for requests; a new one replaces the oldest idle one; 0: 10,000
	RequestsPerAddress        int // of them, of one address that is not a proxy; 0: 1,000
	HistoryReaders            int // history requests that run at the same time; 0: one fewer than cores
	HistoryPerUser            int // running and waiting history requests of one user; 0: 4
}

// Logins configures further limits of failed logins, and limits of refreshes.
type Logins struct {
	NetworkPerMinute   int // failed logins of an IPv4 /24 or IPv6 /48; 0: 10 times those of an address
	NetworkBurst       int // burst; 0: 10 times that of an address
	GlobalPerMinute    int // failed logins in total; 0: 60 times those of an address
	GlobalBurst        int // burst; 0: 60 times that of an address
	AccountFree        int // wrong passwords of an account before it has to wait; 0: 5
	RefreshesPerMinute int // refreshes of one login; 0: 30
	RefreshBurst       int // burst; 0: 100

	UserRefreshesPerMinute int // refreshes of a user in all logins together; 0: 120
	UserRefreshBurst       int // burst; 0: 400
	AccountLoginsPerMinute int // successful logins of an account; 0: 30
	AccountLoginBurst      int // burst; 0: 100

	// AccountFailures bounds how many wrong passwords of an account reach the user base, for user
	// bases that lock accounts. The count is reset after AccountFailureWindow without a failure. 0
	// means no bound.
	AccountFailures      int
	AccountFailureWindow time.Duration // 0: 35 minutes; at most a day
}

// Audit configures how long the audit log is kept, and where its rows are sent.
type Audit struct {
	Days    int // how long rows are kept; 0: 400
	Syslog  AuditSyslog
	Webhook AuditWebhook
}

// AuditSyslog configures a syslog server that receives the rows of the audit log as messages of RFC
// 5424. The zero AuditSyslog sends nothing.
type AuditSyslog struct {
	Address  string // udp://, tcp:// or tls://, a host and perhaps a port
	Format   string // "structured" or "json"; "": structured
	Facility string // such as "local0"; "": authpriv
	SDID     string // name of the structured data; "": rueda@32473

	// Certificate and Key are the files of a client certificate, and Authorities is a file of CA
	// certificates, all in PEM and for tls. If empty, there is no client certificate, and the
	// system's authorities are used.
	Certificate, Key, Authorities string
}

// AuditWebhook configures a web service that receives the rows of the audit log as JSON lines in
// POST requests. Without URL nothing is sent.
type AuditWebhook struct {
	URL         string // https, or http to a loopback address
	Secret      []byte // signs requests, at least 32 bytes; empty: Certificate is required
	Certificate string // files of a client certificate and its key, in PEM; "": none
	Key         string
	Authorities string // file of CA certificates; "": those of the system
}

// Journal configures the journal, which stores the messages of the stream on disk. History and
// exports read from it, and so do clients that resume after hours or after a restart of the
// gateway.
type Journal struct {
	Folder  string        // created if missing; "": no journal
	Segment int64         // size of a file in bytes; 0: 256 MiB
	Sync    time.Duration // interval between two fsyncs; 0: 1 s
	Days    int           // days kept; 0: 30
	Bytes   int64         // bytes kept of whole days; the oldest are deleted first; 0: 64 GiB
}

// Cluster configures the gateway as a node of a cluster, which needs a journal. One node numbers
// the rows. All nodes receive the rows over NATS JetStream and send them to their own clients.
type Cluster struct {
	Name             string        // of the cluster; "": no cluster
	Node             string        // name of this node; "": the name of the machine
	Role             string        // "all", "sequencer", which serves no clients, or "edge", which runs no feeds; "": all
	NATS             []string      // addresses of NATS servers, nats://host:port
	Credentials      string        // file of NATS credentials; "": none
	Authorities      string        // file of CA certificates of the NATS servers, in PEM; "": those of the system
	Certificate, Key string        // files of a client certificate and its key, in PEM; "": none
	Replicas         int           // of the stream, when it is created; 0: 3, or 1 with one address
	Bytes            int64         // kept in the stream; 0: 16 GiB
	Age              time.Duration // kept in the stream; 0: 24 h
	Lease            time.Duration // another node takes over from a sequencer that neither renews it nor appends; 0: 2 s
	New              bool          // a new sequencer may begin this cluster although the database has only nodes of others
}
