package session

import (
	"cmp"
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Env is shared by all sessions of a gateway, and not changed after the start of the first one,
// except by SetLimits. Zero settings have defaults.
type Env struct {
	// Verify checks an access token. It may block, so that the host calls it outside of the
	// session's goroutine, see [Session.TakeToken]. Its faults are InvalidToken, TokenExpired,
	// TokenRevoked and Overloaded.
	Verify func(ctx context.Context, token string) (*Identity, *wire.Fault)

	// Known does the same as Verify for known tokens, without blocking. ok reports whether the
	// token is known. nil: no token is known.
	Known func(token string) (id *Identity, f *wire.Fault, ok bool)

	// Minted returns the login of a token that the gateway has minted, without checking its signature.
	// It must not block. nil: handshakes with tokens that are not known count by address.
	Minted func(token string) (login string, ok bool)

	// Admit checks the client of a token that Verify accepted. It may block, like Verify. nil: a
	// client must be in the networks of the identity, and refusals are not recorded.
	Admit func(ctx context.Context, id *Identity, client netip.Addr) *wire.Fault

	// Fault simulates a fault of the market, see Config.Faults of package gateway: name is one of
	// wire.SimFaults, id is zero if no instrument was named. It must not block. nil: this is not a
	// development gateway, and the action sim is refused.
	Fault func(name string, id market.InstrumentID) (msg string, f *wire.Fault)

	// Speed changes how many seconds pass on a simulated market per second, and returns that number;
	// 0 only asks for it. It must not block. nil: the market has one speed.
	Speed func(speed market.Size) (now market.Size, err error)

	// Injected records a fault that a user has requested, with the sentence that answers the request.
	// nil: not recorded.
	Injected func(user, name, msg string)

	// Used records that a session starts (by is 1) or stops (-1) using a level of a market's data.
	// It must not block. nil: not recorded.
	Used func(user string, u Use, by int)

	// Denied records each refusal because of a missing right or scope. It must not block. nil: not
	// recorded.
	Denied func(user, market string, level wire.Channel, reason wire.Reason)

	Origin time.Time // start of all instants; required, and not after the start of the first session

	Registry *Registry // required
	Version  string    // of the server, sent in Success

	// Settings with their defaults.
	AuthTimeout   time.Duration // for the first auth_token; 10 s
	PingInterval  time.Duration // 20 s
	PongTimeout   time.Duration // after the kernel has accepted a ping; 30 s
	AliveInterval time.Duration // 15 s
	ExpiryWarning time.Duration // before the token's end; 300 s
	ExpiryGrace   time.Duration // after it; 5 s
	KeepExpired   bool          // leave sockets open past the end of their token (close_on_expiry off)

	Connections       int // of a user; 8
	Subscriptions     int // identifiers of a connection; 2,000
	MessagesPerSecond int // of a client; 20
	Burst             int // messages at once; three seconds' worth
	MessageBytes      int // the socket's limit, sent in Success; 64 KiB

	piece int // identifiers of a message that are changed at once; 16

	latest atomic.Pointer[Limits] // of SetLimits; nil: it was not called

	BadMessages   int  // faults of code 400 in a minute, the last of which closes; 10
	Refusals      int  // answers rate_limited in a minute, the last of which closes; 100
	BookWildcards bool // allow patterns for order_book

	SlowAfter    time.Duration // output outstanding for so long is slow; 250 ms
	SlowWarning  time.Duration // between two warnings; 10 s
	MaxAge       time.Duration // of a message that may not be dropped; 5 s
	MaxWaiting   int           // bytes behind one connection; 1 MiB
	StallTimeout time.Duration // for the kernel to take a single byte; 30 s
	MaxBacklog   int           // bytes behind all slow connections together; 256 MiB
}

// Limits are the settings of Env that may change while sessions are open.
type Limits struct {
	Connections, Subscriptions, MessagesPerSecond, MessageBytes int
}

// SetLimits sets the limits, also those of open sessions, which keep the subscriptions that they
// have. Any goroutine may call it.
func (e *Env) SetLimits(l Limits) { e.latest.Store(&l) }

// present returns the limits that apply now.
func (e *Env) present() Limits {
	if l := e.latest.Load(); l != nil {
		return *l
	}
	return Limits{e.Connections, e.Subscriptions, e.MessagesPerSecond, e.MessageBytes}
}

// instant is a point in time by the monotonic clock, in nanoseconds from just before Env.Origin; 0
// is none. It has a third of the size of a time.Time.
type instant int64

func (e *Env) at(now time.Time) instant { return instant(now.Sub(e.Origin)) + 1 }

func (e *Env) time(t instant) time.Time { return e.Origin.Add(time.Duration(t - 1)) }

func (t instant) add(d time.Duration) instant { return t + instant(d) }

// due reports whether t is set and not after now.
func (t instant) due(now instant) bool { return t != 0 && t <= now }

// earliest returns the earliest of the instants that are set, or 0.
func earliest(list ...instant) (first instant) {
	for _, t := range list {
		if first == 0 || t != 0 && t < first {
			first = t
		}
	}
	return first
}

func (e *Env) authTimeout() time.Duration   { return cmp.Or(e.AuthTimeout, 10*time.Second) }
func (e *Env) pingInterval() time.Duration  { return cmp.Or(e.PingInterval, 20*time.Second) }
func (e *Env) pongTimeout() time.Duration   { return cmp.Or(e.PongTimeout, 30*time.Second) }
func (e *Env) aliveInterval() time.Duration { return cmp.Or(e.AliveInterval, 15*time.Second) }
func (e *Env) expiryWarning() time.Duration { return cmp.Or(e.ExpiryWarning, 300*time.Second) }
func (e *Env) expiryGrace() time.Duration   { return cmp.Or(e.ExpiryGrace, 5*time.Second) }
func (e *Env) slowAfter() time.Duration     { return cmp.Or(e.SlowAfter, 250*time.Millisecond) }
func (e *Env) slowWarning() time.Duration   { return cmp.Or(e.SlowWarning, 10*time.Second) }
func (e *Env) maxAge() time.Duration        { return cmp.Or(e.MaxAge, 5*time.Second) }
func (e *Env) stallTimeout() time.Duration  { return cmp.Or(e.StallTimeout, 30*time.Second) }
func (e *Env) maxWaiting() int              { return cmp.Or(e.MaxWaiting, 1<<20) }
func (e *Env) maxBacklog() int              { return cmp.Or(e.MaxBacklog, 256<<20) }
func (e *Env) messageBytes() int            { return cmp.Or(e.present().MessageBytes, 64<<10) }
func (e *Env) pieceItems() int              { return cmp.Or(e.piece, 16) }
func (e *Env) badMessages() int             { return cmp.Or(e.BadMessages, 10) }
func (e *Env) refusals() int                { return cmp.Or(e.Refusals, 100) }

// limits returns the limits of a user, with defaults for those that are not set.
func (e *Env) limits(l broker.Limits) broker.Limits {
	now := e.present()
	l.Connections = cmp.Or(l.Connections, now.Connections, 8)
	l.Subscriptions = cmp.Or(l.Subscriptions, now.Subscriptions, 2000)
	l.MessagesPerSecond = cmp.Or(l.MessagesPerSecond, now.MessagesPerSecond, 20)
	return l
}
