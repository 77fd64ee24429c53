package history

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/data/export"
	"github.com/ruedahq/rueda/internal/engine/entitlement"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Limits of exports. A running export holds the rows of its current part in memory, and takes a
// reader slot while it reads. Users without another export within exportMemory have one additional
// slot, so that a few slow users cannot block all others.
const (
	maxExports    = 2
	queuedExports = 8
	exportTimeout = 20 * time.Second // longest wait for a slot
	exportTime    = time.Hour        // for the whole file
	exportMemory  = 24 * time.Hour
)

// exportRecheck is the interval at which the token and the rights of a running export are checked.
const exportRecheck = time.Second

// A client must accept each chunk within chunkTimeout, and minRate bytes per second on average over
// rateWindow. The export of a slower client is cut off, because other users wait.
const (
	minRate      = 64 << 10
	rateWindow   = time.Minute
	chunkTimeout = 30 * time.Second
)

// Export serves GET /market/export?type=&date=&market=&format=, the data of a closed day as a file.
func (h *Routes) Export(req *api.Request) (api.Result, error) {
	if h.journal == nil {
		return api.Result{}, noJournal()
	}
	r, f := h.parseExport(req)
	if f != nil {
		return api.Result{}, f
	}
	markets := []string{r.Market}
	if r.Market == "" {
		markets = export.Markets(h.journal.Archive, r)
	}
	if err := h.authorizeExport(req, &r, markets); err != nil {
		return api.Result{}, err
	}
	hash, err := h.closedDay(r.Date)
	if err != nil {
		return api.Result{}, err
	}
	switch err := export.Check(h.journal.Archive, r); {
	case errors.Is(err, export.ErrOpenDay): // closed, but some of its rows are published after midnight
		return api.Result{}, &wire.Fault{Reason: wire.NotFound, Msg: "The day is not complete yet: its " + r.Type.String() + " will be complete at " + completeAt(&r), Hint: "Pages of history have what there is of it"}
	case err != nil:
		return api.Result{}, fmt.Errorf("export %s: %w", r.Date, err)
	}
	coding := api.CodingNone
	if r.Format != export.Parquet { // a Parquet file is already compressed
		coding = api.Coding(req.Header.Values("Accept-Encoding"))
	}
	// The same request for the same day gets the same file, so that the tag is known before the day
	// is read.
	sum := sha256.Sum256([]byte(hash + " " + fileName(&r)))
	tag := base64.RawURLEncoding.EncodeToString(sum[:12])
	if coding != api.CodingNone {
		tag += "-" + coding
	}
	setImmutable(req)
	if answer := req.Tagged(`"`+tag+`"`, api.Result{}); answer.Status != 0 {
		return answer, nil
	}
	slot, err := h.acquireExport(req.Context(), req.User.ID)
	if err != nil {
		return api.Result{}, err
	}
	req.Out.Set("Content-Type", r.Format.MediaType())
	req.Out.Set("Content-Disposition", `attachment; filename="`+fileName(&r)+`"`)
	if coding != api.CodingNone {
		req.Out.Set("Content-Encoding", coding)
	}
	if err := h.setLost(req, &r, hash); err != nil {
		slot.release()
		slot.releaseUser()
		return api.Result{}, err
	}
	return api.Result{
		Status: http.StatusOK,
		Stream: func(w http.ResponseWriter) int64 { return h.writeExport(w, req, &r, markets, coding, hash) },
		Done: func() {
			slot.release()
			slot.releaseUser()
		},
	}, nil
}

// setLost sets the headers of a file that is known to lack rows. A file that lacks rows or may lack
// some must not be cached and has no entity tag. This includes files of a day with damage, and
// files of depth.
func (h *Routes) setLost(req *api.Request, r *export.Request, hash string) error {
	_, damaged := h.damagedDays.Load(hash)
	if !damaged && !export.MayLack(h.journal.Archive, *r) {
		return nil
	}
	if err := h.readers.enter(req.Context()); err != nil {
		return err
	}
	defer h.readers.exit()
	lost, err := export.KnownLost(req.Context(), h.journal.Archive, *r)
	if err != nil {
		return fmt.Errorf("export %s: %w", r.Date, err)
	}
	if len(lost) > 0 {
		req.Out.Set(lostHeader, string(export.AppendLost(nil, lost, maxLostHeader)))
	}
	if len(lost) > 0 || damaged || r.Type == export.Depth {
		req.Out.Set("Cache-Control", "private, no-cache")
		req.Out.Del("ETag")
	}
	return nil
}

// exportTimes stores the time of each user's last export.
type exportTimes struct {
	mu    sync.Mutex
	users map[string]time.Time
}

// first records an export that a user begins now, and reports whether it is the user's first one
// within exportMemory.
func (e *exportTimes) first(user string, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.users, func(_ string, at time.Time) bool { return now.Sub(at) >= exportMemory })
	_, before := e.users[user]
	e.users[user] = now
	return !before
}

// acquireExport waits for a slot for an export. For the first export of a user it tries the
// additional slot before it waits.
func (h *Routes) acquireExport(ctx context.Context, user string) (slot, error) {
	if h.exportTimes.first(user, time.Now()) {
		if s, ok := h.firstExports.tryAcquire(user); ok {
			return s, nil
		}
	}
	return h.exports.acquire(ctx, user)
}

// parseExport reads the parameters of an export. Without the parameter format, the Accept header
// selects the format.
func (h *Routes) parseExport(req *api.Request) (r export.Request, f *wire.Failure) {
	r.Date, r.Market = req.Params.Get("date"), req.Params.Get("market")
	var ok bool
	if r.Type, ok = export.ParseType(req.Params.Get("type")); !ok {
		return r, wire.NewFailure(wire.BadField, "type", "must be trades, quotes, bars or depth")
	}
	if _, err := time.Parse(time.DateOnly, r.Date); err != nil {
		return r, wire.NewFailure(wire.BadField, "date", "must be a date like 2026-11-20")
	}
	if r.Market != "" && !slices.ContainsFunc(h.hub.Markets(), func(m market.Market) bool { return m.ID == r.Market }) {
		return r, wire.NewFailure(wire.BadField, "market", "is not a market of GET /market/markets")
	}
	switch format := req.Params.Get("format"); {
	case format != "":
		r.Format, ok = export.ParseFormat(format)
	case req.Media == api.MediaCSV:
		r.Format = export.CSV
	case req.Media == api.MediaLines:
		r.Format = export.NDJSON
	default:
		r.Format = export.Parquet
	}
	if !ok {
		return r, wire.NewFailure(wire.BadField, "format", "must be parquet, csv or ndjson")
	}
	return r, nil
}

// authorizeExport returns an error if the user has no right to all data of a market in the file, or
// if the user's delay hides part of the file.
func (h *Routes) authorizeExport(req *api.Request, r *export.Request, markets []string) error {
	channel := wire.Trades
	switch r.Type {
	case export.Quotes:
		channel = wire.Quotes
	case export.Depth:
		if f := req.NeedScope(broker.ScopeDepth); f != nil {
			return f
		}
		channel = wire.OrderBook
	}
	longest := 0
	for _, name := range markets {
		// An export has all levels of all instruments, so that a right to some of them is not enough.
		ask := entitlement.Ask{ID: market.InstrumentID{Symbol: market.Any, Market: name, Term: market.Any}, Channel: channel, Past: true}
		v := req.Right(ask)
		if v.Reason != "" {
			return req.Deny(ask, v, "No right to the "+r.Type.String()+" of "+name)
		}
		delay := v.Delay
		req.Uses(name, channel, delay)
		if longest = max(longest, delay); delay > 0 && h.hasVirtualClock(name) {
			return wire.NewFault(wire.NotEntitled, "The days of "+name+" are of a virtual clock: who gets its data late gets none of them at once")
		}
	}
	complete, err := r.Complete()
	if err != nil || longest > 0 && h.hub.Present()-complete.UnixNano() < int64(seconds(longest)) {
		return &wire.Fault{Reason: wire.NotFound, Msg: "The day is not over yet at your delay"}
	}
	return nil
}

// completeAt returns the time from which all rows of the file are published, in RFC 3339.
func completeAt(r *export.Request) string {
	at, _ := r.Complete() // the request was checked
	return at.UTC().Format(time.RFC3339)
}

// hasVirtualClock reports whether the market with a name has instruments with a virtual clock.
func (h *Routes) hasVirtualClock(name string) bool {
	return slices.ContainsFunc(h.hub.Listing().Instruments, func(in market.Instrument) bool { return in.ID.Market == name && in.VirtualClock })
}

// closedDay returns the hash of the day with a date. It returns a fault if the day is not kept or
// not closed.
func (h *Routes) closedDay(date string) (hash string, err error) {
	follows := h.hasEarlier(date) // before Days: it may be added meanwhile
	for _, d := range h.journal.Days() {
		switch {
		case d.Date != date:
		case !d.Closed:
			return "", &wire.Fault{Reason: wire.NotFound, Msg: "The day is not closed yet: that happens when the next one has begun (UTC)", Hint: "Pages of history have it already"}
		default:
			return d.Hash, nil
		}
	}
	if follows {
		return "", notYet(0)
	}
	hint := h.keptHint()
	if before, after := export.Around(h.journal.Days(), date); before != "" && after != "" {
		hint = "The nearest days that are kept are " + before + " and " + after
	}
	return "", &wire.Fault{Reason: wire.NotFound, Msg: "The day is not kept", Hint: hint}
}

func fileName(r *export.Request) string {
	name := r.Type.String() + "-" + r.Date
	if r.Market != "" {
		name += "-" + r.Market
	}
	return name + "." + r.Format.String()
}

// fileBuffer is how many bytes of a file are collected for one write.
const fileBuffer = 64 << 10

// errDamage means that rows could not be read although the headers describe the file as complete.
var errDamage = errors.New("rows of the day are damaged: another request gets the others")

// writeExport writes the file and returns its length in bytes. After the first byte, it can report
// an error only by cutting the file off. It also cuts off a file that lacks rows although it has an
// entity tag, because caches would keep it. Later files of that day have no entity tag.
func (h *Routes) writeExport(w http.ResponseWriter, req *api.Request, r *export.Request, markets []string, coding, hash string) int64 {
	if req.Method == http.MethodHead {
		return 0
	}
	out := newDeadlineWriter(req.Context(), w, h.readers)
	out.recheck = func() error { return h.recheckExport(req, r, markets) }
	err := out.control.SetReadDeadline(time.Time{}) // a file may take longer than a request
	var lost []export.Lost
	if err == nil || errors.Is(err, http.ErrNotSupported) {
		lost, err = h.writeFile(out, r, coding)
	}
	if err == nil {
		_, err = h.closedDay(r.Date) // rows of a day that was removed meanwhile may be missing
	}
	if err == nil && len(lost) > 0 && w.Header().Get("ETag") != "" {
		h.damagedDays.Store(hash, nil)
		err = errDamage
	}
	switch {
	case err == nil:
		if list := string(export.AppendLost(nil, lost, maxLostHeader)); len(lost) > 0 && list != w.Header().Get(lostHeader) {
			w.Header().Set(http.TrailerPrefix+lostHeader, list)
		}
		return out.written
	case out.failed == nil && req.Context().Err() == nil:
		h.log.LogAttrs(req.Context(), slog.LevelError, "export failed", slog.String("request_id", req.ID), slog.Any("error", err))
	}
	panic(http.ErrAbortHandler)
}

// recheckExport returns an error if the user has lost the right to the file while it is sent.
func (h *Routes) recheckExport(req *api.Request, r *export.Request, markets []string) error {
	if err := req.Recheck(); err != nil {
		return err
	}
	again := *req // a copy, so that the use is not recorded twice
	return h.authorizeExport(&again, r, markets)
}

// writeFile writes the file to out, compressed in a coding, and returns the rows that it lacks.
func (h *Routes) writeFile(out *deadlineWriter, r *export.Request, coding string) (lost []export.Lost, err error) {
	if err := out.enter(); err != nil {
		return nil, err
	}
	defer out.exit()
	buffered := bufio.NewWriterSize(out, fileBuffer)
	compressed, err := h.compressors.Writer(buffered, coding)
	if err != nil {
		return nil, err
	}
	if compressed == nil {
		_, lost, err = export.Write(out.ctx, buffered, h.journal.Archive, *r)
	} else {
		_, lost, err = export.Write(out.ctx, compressed, h.journal.Archive, *r)
		err = errors.Join(err, compressed.Close())
	}
	return lost, errors.Join(err, buffered.Flush())
}

// deadlineWriter writes a file to a client, with a time limit for each chunk. It releases its
// reader slot during a write, so that other requests can read.
type deadlineWriter struct {
	ctx     context.Context
	w       io.Writer
	control *http.ResponseController
	readers *limiter
	hasSlot bool
	written int64
	allowed time.Duration // how long the client may still take without progress
	end     time.Time     // when exportTime is over
	failed  error         // from a write, the wait for a slot, or recheck
	recheck func() error  // checks the rights of the client; nil: no check
	checked time.Time
}

func newDeadlineWriter(ctx context.Context, w http.ResponseWriter, readers *limiter) *deadlineWriter {
	return &deadlineWriter{ctx: ctx, w: w, control: http.NewResponseController(w), readers: readers, allowed: rateWindow, end: time.Now().Add(exportTime), checked: time.Now()}
}

// enter waits for a reader slot.
func (d *deadlineWriter) enter() error {
	err := d.readers.enter(d.ctx)
	d.hasSlot = err == nil
	return err
}

// exit releases the reader slot, if the writer holds one.
func (d *deadlineWriter) exit() {
	if d.hasSlot {
		d.hasSlot = false
		d.readers.exit()
	}
}

// Write implements io.Writer.
func (d *deadlineWriter) Write(b []byte) (int, error) {
	if d.failed != nil {
		return 0, d.failed
	}
	d.exit()
	before := d.written
	if d.failed = api.InPieces(b, d.writeChunk); d.failed == nil {
		d.failed = d.enter()
	}
	return int(d.written - before), d.failed
}

// writeChunk writes a chunk within the time limit. It first rechecks the rights of the user if that
// is due.
func (d *deadlineWriter) writeChunk(b []byte) (int, error) {
	start := time.Now()
	if d.recheck != nil && start.Sub(d.checked) >= exportRecheck {
		d.checked = start
		if err := d.recheck(); err != nil {
			return 0, err
		}
	}
	most := d.allowed + time.Duration(len(b))*time.Second/minRate
	if err := d.control.SetWriteDeadline(start.Add(min(chunkTimeout, most, d.end.Sub(start)))); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	n, err := d.w.Write(b)
	d.written += int64(n)
	d.allowed = min(rateWindow, most-time.Since(start))
	return n, err
}
