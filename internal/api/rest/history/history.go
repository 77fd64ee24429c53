// Package history serves past market data from the journal: pages of rows, order books of the past,
// and exports of closed days.
//
// A page is read by index on the goroutine of its request, and is complete before its first byte is
// written, so that a slow client holds up nobody. A limited number of requests read at a time
// (limiter.go); an export counts as one except while it waits for its client. A page has rows of
// one epoch. A cursor names the row before the next page, and has a fingerprint of the query. Rows
// of closed days that can no longer change are marked as immutable for caches (settled.go).
//
// # Concurrency
//
// Routes is safe for concurrent use and starts no goroutine. Its limiters have a mutex each, which
// is held for a few map operations.
package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/base/sched"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// maxAttempts is how often a page is read again if days are removed during the read, before the
// request fails.
const maxAttempts = 3

// How many requests may wait for a reader slot, and for how long.
const (
	queuedReaders = 64
	readerTimeout = 5 * time.Second
)

// Config configures Routes. All fields except Journal are required.
type Config struct {
	Hub         *hub.Hub
	Journal     *journal.Journal // nil: the routes are not found
	Readers     int              // how many requests may read at a time
	PerUser     int              // how many requests of one user may read or wait
	Compressors *api.Compressors
	Logger      *slog.Logger
}

// Routes serves the routes of past market data.
type Routes struct {
	hub         *hub.Hub
	journal     *journal.Journal // nil: none
	log         *slog.Logger
	compressors *api.Compressors
	readers     *limiter
	exports     *limiter

	firstExports *limiter // of users without an export in exportMemory
	exportTimes  exportTimes
	damagedDays  sync.Map // hashes of closed days in which an export has found damage
	oldestDay    atomic.Pointer[oldestDay]

	buffers bufferPool // of pages
}

// New returns Routes. It does not check cfg.
func New(cfg Config) *Routes {
	return &Routes{
		hub: cfg.Hub, journal: cfg.Journal, log: cfg.Logger, compressors: cfg.Compressors,
		readers: newLimiter(cfg.Readers, cfg.PerUser, queuedReaders, readerTimeout),
		exports: newLimiter(maxExports, 1, queuedExports, exportTimeout), firstExports: newLimiter(1, 1, 0, 0),
		exportTimes: exportTimes{users: make(map[string]time.Time)},
	}
}

// Trades serves GET /market/trades, the trades, cancels and corrections of an instrument.
func (h *Routes) Trades(req *api.Request) (api.Result, error) {
	return h.serve(req, &query{list: "trades", series: journal.Series{Channel: journal.Trades}})
}

// Quotes serves GET /market/quotes, the best bids and offers of an instrument.
func (h *Routes) Quotes(req *api.Request) (api.Result, error) {
	return h.serve(req, &query{list: "quotes", series: journal.Series{Channel: journal.Quotes}})
}

// Statuses serves GET /market/statuses, the trading statuses of an instrument, or of a market with
// the instrument *|MARKET|*.
func (h *Routes) Statuses(req *api.Request) (api.Result, error) {
	return h.serve(req, &query{list: "statuses", series: journal.Series{Channel: journal.Statuses}})
}

// Bars serves GET /market/bars?interval=, the bars of an instrument.
func (h *Routes) Bars(req *api.Request) (api.Result, error) {
	interval, ok := market.Minute, true
	if text := req.Params.Get("interval"); text != "" {
		interval, ok = market.ParseInterval(text)
	}
	if !ok {
		return api.Result{}, wire.NewFailure(wire.BadField, "interval", "must be 1s, 1m, 5m, 15m, 1h or 1d")
	}
	return h.serve(req, &query{list: "bars", series: journal.Series{Channel: journal.Bars, Interval: interval}})
}

// serve answers a query with a page of rows, or with 304. It waits for a reader slot if rows must
// be read.
func (h *Routes) serve(req *api.Request, q *query) (api.Result, error) {
	if h.journal == nil {
		return api.Result{}, noJournal()
	}
	q.path = req.Path
	if err := h.parse(req, q); err != nil {
		return api.Result{}, err
	}
	if h.settle(req, q); q.tag != "" {
		if r := req.Tagged(q.tag, api.Result{}); r.Status != 0 {
			setCaching(req, q, true)
			return r, nil
		}
	}
	slot, err := h.readers.acquire(req.Context(), req.User.ID)
	if err != nil {
		return api.Result{}, err
	}
	answered := false
	defer func() {
		if !answered {
			slot.releaseUser()
		}
	}()
	p, err := h.read(req, q, slot)
	if err != nil {
		return api.Result{}, err
	}
	// The request counts until its page is written, because a page that a client does not read
	// takes memory.
	r := h.finish(req, q, p)
	r.Done = func() {
		h.buffers.put(p.body)
		slot.releaseUser()
	}
	answered = true
	return r, nil
}

func noJournal() *wire.Fault {
	return &wire.Fault{Reason: wire.NotFound, Msg: "No journal is kept here", Hint: "History needs a gateway with a data folder"}
}

// read reads a page and releases the reader slot. If days are removed during the read, it reads the
// page again, up to maxAttempts times in all.
func (h *Routes) read(req *api.Request, q *query, s slot) (*page, error) {
	defer s.release()
	buf := h.buffers.get(4<<10 + bytesPerRow*q.limit)
	for range maxAttempts {
		p := newPage(req, q, buf[:0])
		if err := h.fill(req, q, p); !errors.Is(err, journal.ErrNotKept) {
			return p, err
		}
		buf = p.body
	}
	return nil, &wire.Fault{Reason: wire.Unavailable, Msg: "Rows are removed faster than they are read", RetryAfter: 1}
}

// fill adds the rows of a query to a page, and what is known about missing rows. A page has rows of
// one epoch and ends where the next epoch begins.
func (h *Routes) fill(req *api.Request, q *query, p *page) error {
	if err := req.AwaitCommit(h.hub); err != nil {
		return err
	}
	limit, absent := h.horizon(q), h.absentRows(q)
	epochs := q.epochs(h.journal.Epochs())
	found, err := h.journal.Find(q.series, q.epoch)
	if err != nil {
		return fmt.Errorf("find the %s of %s: %w", q.list, q.series.Instrument, err)
	}
	defer found.Close()
	// q.tag was computed before the wait for a slot. It is valid for these rows if it is still the
	// same.
	tag := q.tag
	h.settle(req, q)
	if err := fillFrom(req.Context(), q, p, epochs, found, &limit); err != nil {
		return err
	}
	if err := h.addBeginning(req.Context(), q, p, found, &limit); err != nil {
		return err
	}
	if q.tag != tag || len(p.lost) > 0 {
		q.tag = ""
	}
	if absent.hides(q, p) {
		return notYet(absent.until)
	}
	if q.tag == "" {
		_ = api.InPieces(p.body, p.sum.Write) // never fails
	}
	return nil
}

// fillFrom adds rows to a page. It reads them from found, which Find returned, in the order of
// epochs, and leaves out rows beyond limit.
func fillFrom(ctx context.Context, q *query, p *page, epochs []string, found *journal.Found, limit *horizon) error {
	for i, epoch := range epochs {
		r, ok := q.rangeIn(epoch)
		if !ok {
			continue
		}
		r.SkipDamage = true
		err := found.Read(ctx, r, func(epoch string, row *journal.Row) bool {
			switch {
			case limit.hides(epoch, row):
				return q.desc // older rows may be visible
			case p.rows > 0 && p.epoch != epoch:
				p.next = &cursor{epoch: epoch}
				return false
			case p.rows == q.limit:
				p.next = &cursor{epoch, p.last.n}
				return false
			}
			p.add(epoch, row)
			if p.rows%api.YieldRows == 0 {
				sched.Yield()
			}
			return true
		})
		if err == nil {
			err = p.addLost(ctx, found, r, epochs[i+1:], limit)
		}
		switch {
		case ctx.Err() != nil:
			return api.ErrGone
		case err != nil:
			return fmt.Errorf("read the %s of %s: %w", q.list, q.series.Instrument, err)
		}
		if p.next != nil {
			break
		}
	}
	return nil
}

// horizon says which rows of a series a user may see: those up to a publication time, or up to a
// position of an epoch. The zero horizon hides no rows.
type horizon struct {
	at       int64  // newest visible publication time, Unix ns; 0: no limit
	epoch    string // epoch of position
	position uint64 // if virtual is true: position of the newest visible row
	virtual  bool
}

// horizon returns the horizon of a query's user. For an instrument with a virtual clock it limits
// the position of rows, and otherwise their publication time.
func (h *Routes) horizon(q *query) (z horizon) {
	switch {
	case q.delay == 0:
	case q.instrument.VirtualClock:
		z.virtual, z.epoch = true, h.journal.Epoch()
		z.position = h.hub.Due(q.delay)
	default:
		z.at = h.hub.Present() - int64(seconds(q.delay))
	}
	return z
}

func (z *horizon) hides(epoch string, row *journal.Row) bool {
	return z.at != 0 && row.At > z.at || z.virtual && epoch == z.epoch && row.Position > z.position
}

// streamChannel returns the channel of the stream that sends the rows of a series.
func streamChannel(s journal.Series) wire.Channel {
	switch s.Channel {
	case journal.Quotes:
		return wire.Quotes
	case journal.Statuses:
		return wire.Status
	case journal.Bars:
		return wire.BarsOf(s.Interval)
	}
	return wire.Trades
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// bufferPool keeps buffers of pages for reuse. A buffer may have some megabytes, and garbage
// collections slow the stream down.
type bufferPool struct{ free sync.Pool } // of *[]byte

// maxBuffer is the largest capacity of a buffer that the pool keeps, in bytes.
const maxBuffer = 4 << 20

// get returns an empty buffer with a capacity of at least n bytes.
func (p *bufferPool) get(n int) []byte {
	if b, _ := p.free.Get().(*[]byte); b != nil && cap(*b) >= n {
		return (*b)[:0]
	}
	return make([]byte, 0, n)
}

// put gives a buffer back to the pool. The caller must not use the buffer afterwards.
func (p *bufferPool) put(b []byte) {
	if cap(b) > 0 && cap(b) <= maxBuffer {
		p.free.Put(&b)
	}
}
