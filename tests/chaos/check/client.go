package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/tests/chaos/stream"
)

// ClientConfig says what a client does.
type ClientConfig struct {
	Name      string // its session
	Addresses []string
	User      string
	Password  string
	Judge     *Judge
	Seed      uint64
	Slow      bool // it stops reading now and then
}

// item is an identifier in the set. That of bars has its interval as the fourth part.
type item struct {
	channel, ident string
	depth          int
	conflate       string
}

// state is what a client knows of an item.
type state struct {
	on       bool
	position string // everything up to it was received
}

// series is what a client knows of the messages of one channel and instrument in an epoch.
type series struct {
	last   int64 // newest N; 0: none
	now    int64 // newest N since it was subscribed; 0: none
	exact  int64 // N of the first message after a resume by N; 0: any
	atMost int64 // N of the first message after a resume by position is not above; 0: any
}

// Client is one client. Run it once.
type Client struct {
	c      ClientConfig
	r      *rand.Rand
	report *Report
	calm   atomic.Bool

	mu     sync.Mutex
	socket *stream.Socket
	token  string
	epoch  string
	set    map[item]*state
	series map[string]*series
	books  map[string]*clientBook

	id      int64
	pending *request
	todo    []*request
	next    time.Time // of the next action
	live    bool      // it is authenticated
	replays map[int64]map[string]int64
}

// request is a message that waits for its answer.
type request struct {
	id       int64
	kind     string // auth, subscribe, unsubscribe, subscriptions, resync
	items    []item
	resume   map[item]int64 // N of those that resume by N
	position string         // of those that resume by position
	sent     time.Time
	message  map[string]any
}

// NewClient returns a client; Run starts it.
func NewClient(c ClientConfig) *Client {
	k := &Client{c: c, r: rand.New(rand.NewPCG(c.Seed, 1)), report: c.Judge.Report}
	k.forget()
	return k
}

// Calm stops the actions of the client, or lets it continue. It stays connected, or resumes.
func (k *Client) Calm(on bool) { k.calm.Store(on) }

// Behind says which series lacks its newest N, or "". It is for a calm client.
func (k *Client) Behind(final map[string]int64) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.live || k.pending != nil || len(k.todo) > 0 || len(k.replays) > 0 {
		return k.c.Name + " is not subscribed"
	}
	for name, n := range final {
		if k.c.Judge.Missing { // the newest rows may not have been stored
			n = max(n, k.last(name))
		}
		if s := k.series[name]; s != nil && s.last != n && k.covered(name) && !(s.last == 0 && s.exact == 0 && s.atMost == 0) {
			return fmt.Sprintf("%s: %s ends with %d, not %d", k.c.Name, name, s.last, n)
		}
	}
	return ""
}

func (k *Client) last(name string) int64 {
	if s := k.series[name]; s != nil {
		return s.last
	}
	return 0
}

// covered reports whether the set has an item of a series. Quotes may be conflated.
func (k *Client) covered(name string) bool {
	channel, ident, _ := strings.Cut(name, " ")
	for it, st := range k.set {
		if it.channel == channel && st.on && it.conflate == "" && matches(it.ident, ident) {
			return true
		}
	}
	return false
}

// matches reports whether an item's identifier is, or as a pattern covers, that of a message.
func matches(pattern, ident string) bool {
	a, b := strings.Split(pattern, "|"), strings.Split(ident, "|")
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != "*" && a[i] != b[i] {
			return false
		}
	}
	return true
}

// forget drops everything that belongs to an epoch.
func (k *Client) forget() {
	k.series, k.books = map[string]*series{}, map[string]*clientBook{}
	for _, st := range k.set {
		st.position = ""
	}
}

// Run connects, and reads until ctx is done.
func (k *Client) Run(ctx context.Context) {
	for ctx.Err() == nil {
		again, err := k.connection(ctx)
		var closed *stream.Closed
		switch {
		case errors.Is(err, stream.ErrProtocol):
			k.report.Violation("protocol", "%s: %v", k.c.Name, err)
		case errors.As(err, &closed):
			k.report.Count("closed "+closed.Reason, 1)
			if !allowed(closed.Reason) {
				k.report.Violation("close", "%s: %v", k.c.Name, err)
			}
		case Internal(err):
			k.report.Violation("answer", "%s: %v", k.c.Name, err)
		}
		if k.calm.Load() {
			again = 50 * time.Millisecond
		}
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

// allowed reports whether the gateway may close or refuse with a reason.
func allowed(reason string) bool {
	return slices.Contains([]string{"slow_client", "shutting_down", "overloaded", "replaced", "unavailable", ""}, reason)
}

// silence is the time without a message after which a client connects again.
const silence = 45 * time.Second

// connection is one connection from its start to its end.
func (k *Client) connection(ctx context.Context) (again time.Duration, err error) {
	again = time.Duration(50+k.r.IntN(400)) * time.Millisecond
	address := k.c.Addresses[k.r.IntN(len(k.c.Addresses))]
	if k.token == "" {
		if k.token, err = stream.Login(ctx, address, k.c.User, k.c.Password); err != nil {
			return again, err
		}
	}
	o := stream.Options{Batch: k.r.IntN(3) == 0}
	if k.c.Slow {
		o.Buffer = 32 << 10
	}
	s, err := stream.Dial(ctx, address, o)
	if err != nil {
		return again, err
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, s.Close)
	defer stop()
	k.report.Count("connections", 1)
	k.begin(s)
	defer k.finish()
	err = k.send(&request{kind: "auth", message: map[string]any{"action": "auth_token", "token": k.token, "session": k.c.Name}})
	heard, slow := time.Now(), time.Time{}
	for err == nil && ctx.Err() == nil {
		var m *stream.Message
		m, err = s.Read(time.Now().Add(50 * time.Millisecond))
		var timeout interface{ Timeout() bool }
		switch {
		case err == nil:
			heard = time.Now()
			err = k.handle(m)
		case errors.As(err, &timeout) && timeout.Timeout():
			err = nil
			if time.Since(heard) > silence {
				k.report.Count("silences", 1)
				return again, nil
			}
		default:
			return again, err
		}
		if err == nil {
			err = k.act()
		}
		if k.c.Slow && !k.calm.Load() && time.Now().After(slow) {
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(k.r.IntN(8_000)) * time.Millisecond):
			}
			slow, heard = time.Now().Add(time.Duration(k.r.IntN(5_000))*time.Millisecond), time.Now()
			k.report.Count("pauses of readers", 1)
		}
	}
	return again, err
}

// errDrop ends a connection without a fault.
var errDrop = errors.New("the client leaves")

func (k *Client) begin(s *stream.Socket) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.socket, k.live, k.pending, k.todo, k.replays = s, false, nil, nil, map[int64]map[string]int64{}
	k.books = map[string]*clientBook{}
	for _, st := range k.set {
		st.on = false
	}
}

func (k *Client) finish() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.live = false
}

// send sends a request; its answer must come before the next one.
func (k *Client) send(r *request) error {
	k.id++
	r.id, r.sent = k.id, time.Now()
	r.message["id"] = r.id
	k.pending = r
	return k.socket.Send(r.message)
}

// items returns those of the set in a fixed order, so that a seed chooses the same ones.
func (k *Client) items() []item {
	return slices.SortedFunc(maps.Keys(k.set), func(a, b item) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
}
