package session

import (
	"cmp"
	"context"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Env is what all sessions of a gateway share. It is not changed once the first
// session was made. The zero value of each setting stands for its default.
type Env struct {
	// Verify checks an access token. It may block, and the host calls it outside
	// of the session's goroutine, see [Session.TakeToken]. Its faults are
	// InvalidToken, TokenExpired, TokenRevoked and Overloaded.
	Verify func(ctx context.Context, token string) (*Identity, *wire.Fault)

	// Known is Verify where the answer is at hand: it does not block, and ok says
	// whether it could answer. nil: it never can.
	Known func(token string) (id *Identity, f *wire.Fault, ok bool)

	// Fault makes something go wrong in the market, as Config.Faults of package gateway says: name is one
	// of wire.SimFaults, id zero where no instrument was named. nil: this is not a development
	// gateway, and the action sim is refused. It must not block.
	Fault func(name string, id market.InstrumentID) (msg string, f *wire.Fault)

	// Used is told when a session begins (by is 1) and ceases (-1) to use a level of a market's data. It must
	// not block. nil: nobody counts.
	Used func(user string, u Use, by int)

	// Denied is told of what was refused for want of a right or scope, each time; nil: nobody is. It must not block.
	Denied func(user, market string, level wire.Channel, reason wire.Reason)

	Origin time.Time // moments count from here; required, not after the first session's start

	Registry *Registry // required
	Version  string    // of the server, told in Success

	// The smaller settings, with their defaults.
	AuthTimeout   time.Duration // for the first auth_token; 10 s
	PingInterval  time.Duration // 20 s
	PongTimeout   time.Duration // from when the kernel took a ping; 30 s
	AliveInterval time.Duration // 15 s
	ExpiryWarning time.Duration // before the token's end; 300 s
	ExpiryGrace   time.Duration // after it; 5 s
	KeepExpired   bool          // leave sockets open past the end of their token (close_on_expiry off)

	Connections       int // of a user; 8
	Subscriptions     int // identifiers of a connection; 2,000
	MessagesPerSecond int // of a client; 20
	Burst             int // messages at once; three seconds' worth
	MessageBytes      int // the socket's limit, told in Success; 64 KiB

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
func (e *Env) messageBytes() int            { return cmp.Or(e.MessageBytes, 64<<10) }
func (e *Env) badMessages() int             { return cmp.Or(e.BadMessages, 10) }
func (e *Env) refusals() int                { return cmp.Or(e.Refusals, 100) }

// limits returns the limits of a user, with defaults for those that are not set.
func (e *Env) limits(l broker.Limits) broker.Limits {
	l.Connections = cmp.Or(l.Connections, e.Connections, 8)
	l.Subscriptions = cmp.Or(l.Subscriptions, e.Subscriptions, 2000)
	l.MessagesPerSecond = cmp.Or(l.MessagesPerSecond, e.MessagesPerSecond, 20)
	return l
}
