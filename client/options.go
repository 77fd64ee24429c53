package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/engine/readahead"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// Secret is a password or token. When printed or logged it shows nothing.
type Secret string

// Format implements fmt.Formatter. It writes no secret.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "secret") }

// LogValue implements slog.LogValuer. It returns no secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue("secret") }

// Overflow is what happens to events that the program has not taken yet, when there are too many.
type Overflow uint8

// Policies for a program that is slower than its events. None of them loses a trade silently.
const (
	// Conflate replaces a waiting quote, book or summary by its newest state. Trades, statuses and
	// bars wait: when the queue is full, the client stops reading, and the gateway's rules for slow
	// clients apply. If it disconnects, the client resumes later and nothing is lost.
	Conflate Overflow = iota
	// Block delivers every event, as Conflate does for trades.
	Block
	// Drop is as Conflate, and drops trades, statuses and bars when the queue is full. It reports
	// the exact range as Lost.
	Drop
)

// Options configure a Client. Each field documents its zero value.
type Options struct {
	Username string
	Password Secret
	// OTP returns a one-time password when a login needs one; nil: such logins fail.
	OTP func(context.Context) (string, error)
	// Tokens keeps the tokens between runs of the program, for example a FileStore; nil: in memory.
	// With stored tokens, no password is needed.
	Tokens TokenStore

	// Session is the name of the connection, of 1 to 36 of A-Z a-z 0-9 . _ -. A client that
	// connects takes over the connection with its name. "": a random name for each Client.
	Session string
	// Strict asks the gateway to close a connection that reads too slowly, instead of conflating.
	Strict bool
	// Queue is how many events may wait for the program; 0: 8,192.
	Queue int
	// Overflow says what happens to more; the zero value is Conflate.
	Overflow Overflow
	// Heartbeat is how long the connection may be silent. The client then sends a ping, and
	// reconnects if nothing arrives in the same time again. 0: half of the interval of the gateway's
	// own pings, usually 10 s.
	Heartbeat time.Duration
	// Format is how the gateway encodes the messages of the stream: wire.JSON, wire.Batch or
	// wire.Msgpack. Events are the same. A gateway without the format uses JSON. 0: JSON.
	Format wire.Format
	// Compress requests compressed messages (permessage-deflate).
	Compress bool
	// Messages adds every message of the stream to the events, as a Message.
	Messages bool

	// TLS configures certificates, such as the authorities of a broker; nil: those of the system.
	TLS *tls.Config
	// Proxy returns the proxy of a request; nil: HTTP_PROXY, HTTPS_PROXY and NO_PROXY.
	Proxy func(*http.Request) (*url.URL, error)
	// Dial opens network connections; nil: net.Dialer, which resolves names each time.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Insecure allows http:// to other machines, which sends passwords and tokens unencrypted.
	Insecure bool

	// Resume continues where an earlier Client stopped; nil: only new data.
	Resume *Checkpoint

	// UserAgent is the name and version of the program; "": rueda-client.
	UserAgent string
	// Logger receives what the program cannot act on; nil: discarded.
	Logger *slog.Logger
}

// Client is a user's access to a gateway. It is safe for concurrent use.
type Client struct {
	opts   Options
	urls   []*url.URL
	agent  string
	log    *slog.Logger
	http   *http.Client // REST
	socket *http.Client // handshakes of the stream
	made   time.Time
	tokens tokens
	wake   chan struct{} // the desired set has changed; capacity 1

	// reading has a slot for each goroutine that reads history for the stream.
	reading chan struct{}

	at      atomic.Int64 // index of the URL in use
	running atomic.Bool  // Events is in use
	engine  engine       // used by Events only
	taken   taken        // which has a lock of its own

	mu      sync.Mutex // guards the fields below
	desired map[item]options
	asked   map[item]bool // books that are, or have been, in the set
	queue   queue
	books   map[stream.Series]*Book
	health  health
	err     error // what ended Events; nil: its context, or the program
}

// New returns a client of the gateway at one or more URLs such as https://api.broker.example. It
// connects to nothing. An invalid URL or option is an error.
func New(urls []string, o Options) (*Client, error) {
	c := &Client{opts: o, made: time.Now(), wake: make(chan struct{}, 1), reading: make(chan struct{}, 2), desired: map[item]options{}, asked: map[item]bool{}, books: map[stream.Series]*Book{}}
	for _, s := range urls {
		u, err := parseURL(s, o.Insecure)
		if err != nil {
			return nil, err
		}
		c.urls = append(c.urls, u)
	}
	if len(c.urls) == 0 {
		return nil, errors.New("client: no URL")
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	c.opts.Session = cmp.Or(o.Session, "go-"+rand.Text()[:16])
	c.agent = cmp.Or(o.UserAgent, "rueda-client")
	if c.log = o.Logger; c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	proxy := http.ProxyFromEnvironment
	if o.Proxy != nil {
		proxy = func(r *http.Request) (*url.URL, error) {
			u, err := o.Proxy(r)
			if err != nil {
				err = ownError{err}
			}
			return u, err
		}
	}
	dial := o.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	rest := &http.Transport{
		Proxy: proxy, DialContext: dial, TLSClientConfig: o.TLS.Clone(), ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: answerTimeout, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 8,
	}
	c.http = &http.Client{Transport: rest, CheckRedirect: stay}
	socket := rest.Clone()
	socket.DialContext = readahead.Dialer(dial)
	socket.ForceAttemptHTTP2, socket.DisableKeepAlives = false, true
	socket.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{} // a WebSocket needs HTTP/1.1
	c.socket = &http.Client{Transport: socket, CheckRedirect: stay}
	c.queue = newQueue(cmp.Or(o.Queue, 8192), o.Overflow)
	c.taken.done.epochs = 1
	c.tokens.init(c)
	c.engine = engine{Client: c, all: map[stream.Series]*series{}, series: map[stream.Series]*cursor{}, past: map[stream.Series]uint64{}, had: map[item]bool{}}
	if o.Resume != nil {
		if err := c.engine.restore(o.Resume); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// session matches the valid values of Options.Session.
var session = regexp.MustCompile(`^[A-Za-z0-9._-]{1,36}$`)

// check returns an error that names an option that is not valid.
func (o *Options) check() error {
	switch {
	case o.Format > wire.Msgpack:
		return fmt.Errorf("client: Options.Format is %d: must be wire.JSON, wire.Batch or wire.Msgpack", o.Format)
	case o.Overflow > Drop:
		return fmt.Errorf("client: Options.Overflow is %d: must be Conflate, Block or Drop", o.Overflow)
	case o.Queue < 0:
		return fmt.Errorf("client: Options.Queue is %d: must be above 0, or 0 for 8,192", o.Queue)
	case o.Heartbeat < 0:
		return fmt.Errorf("client: Options.Heartbeat is %v: must be above 0, or 0 for what the gateway states", o.Heartbeat)
	case o.Session != "" && !session.MatchString(o.Session):
		return fmt.Errorf("client: Options.Session is %q: must be 1 to 36 of A-Z a-z 0-9 . _ -", o.Session)
	case o.Password != "" && o.Username == "":
		return errors.New("client: Options has a Password without a Username")
	}
	return nil
}

// stay follows no redirect, which would send passwords and tokens to another address, perhaps
// unencrypted.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Close closes idle connections of requests. It does not end Events, which ends with its context.
func (c *Client) Close() {
	c.http.CloseIdleConnections()
	c.socket.CloseIdleConnections()
}

// parseURL parses the address of a gateway or of its stream.
func parseURL(s string, insecure bool) (*url.URL, error) {
	u, err := url.Parse(s)
	if err == nil && (u.Scheme == "ws" || u.Scheme == "wss") {
		u.Scheme = "http" + strings.TrimPrefix(u.Scheme, "ws")
	}
	wrong := ""
	switch {
	case !strings.Contains(s, "://") || err == nil && u.Scheme != "http" && u.Scheme != "https":
		wrong = "it begins with neither https:// nor http://"
	case err != nil:
		var parse *url.Error
		errors.As(err, &parse) // its text has the URL again
		wrong = parse.Err.Error()
	case u.Hostname() == "":
		wrong = "it names no host"
	case u.User != nil:
		wrong = "pass the user and the password as Options"
	case u.RawQuery != "":
		wrong = "it has a query"
	}
	if wrong != "" {
		return nil, fmt.Errorf("client: %q is not the URL of a gateway: %s", s, wrong)
	}
	if u.Scheme == "http" && !insecure && !isLoopback(u.Hostname()) {
		return nil, fmt.Errorf("client: %s would send the password unencrypted: use https, or set Insecure", s)
	}
	u.Path = strings.TrimRight(strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/stream"), "/") // of a proxy
	u.RawPath, u.Fragment = "", ""
	if page := pagePath.FindStringIndex(u.Path); page != nil {
		u.Path = u.Path[:page[0]]
		return nil, fmt.Errorf("client: %q is the URL of a page. Write %s", s, u)
	}
	return u, nil
}

// pagePath matches paths of the pages of a gateway.
var pagePath = regexp.MustCompile(`/(client|console|docs)(/|$)`)

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.Unmap().IsLoopback()
}

// url returns the URL in use. skip counts URLs after it.
func (c *Client) url(skip int) *url.URL {
	return c.urls[(int(c.at.Load())+skip)%len(c.urls)]
}

// next makes the next URL the one in use.
func (c *Client) next() { c.at.Add(1) }
