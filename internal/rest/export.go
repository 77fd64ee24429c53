package rest

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/export"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Bounds of the exports: how many are under way, each of which holds the rows of its present part in
// memory, and how many wait. While one reads it takes a reader's place, as pages do.
const (
	exportsAtOnce  = 2
	queuedExports  = 8
	exportPatience = 20 * time.Second
)

// What a client must take of a file: leastRate bytes a second, as the mean of leastSpan. Who takes less is cut off, for
// others wait for the place.
const (
	leastRate = 64 << 10
	leastSpan = time.Minute
)

// files are the media types of exports.
func files() []string {
	return []string{export.Parquet.MediaType(), mediaCSV, mediaLines}
}

// export is GET /market/export?type=&date=&market=&format=: a closed day as a file.
func (h *Handler) export(q *request) (result, error) {
	if h.cfg.Journal == nil {
		return result{}, noJournal()
	}
	r, f := h.exportOf(q)
	if f != nil {
		return result{}, f
	}
	if err := h.mayExport(q, &r); err != nil {
		return result{}, err
	}
	hash, err := h.closedDay(r.Date)
	if err != nil {
		return result{}, err
	}
	switch err := export.Check(h.cfg.Journal.Archive, r); {
	case errors.Is(err, export.ErrOpenDay): // closed, but some rows of it are published after midnight
		return result{}, &wire.Fault{Reason: wire.NotFound, Msg: "The day is not complete yet", Hint: "Pages of history have what there is of it"}
	case err != nil:
		return result{}, fmt.Errorf("export %s: %w", r.Date, err)
	}
	packed := codingNone
	if r.Format != export.Parquet { // which is compressed in itself
		packed = coding(q.Header.Values("Accept-Encoding"))
	}
	// Nothing was read yet, and what will be is always the same for the same day and request.
	sum := sha256.Sum256([]byte(hash + " " + fileName(&r)))
	tag := base64.RawURLEncoding.EncodeToString(sum[:12])
	if packed != codingNone {
		tag += "-" + packed
	}
	q.immutable()
	if answer := q.tagged(`"`+tag+`"`, result{}); answer.status != 0 {
		return answer, nil
	}
	free, leave, err := h.exports.take(q.Context(), q.user.ID)
	if err != nil {
		return result{}, err
	}
	q.out.Set("Content-Type", r.Format.MediaType())
	q.out.Set("Content-Disposition", `attachment; filename="`+fileName(&r)+`"`)
	if packed != codingNone {
		q.out.Set("Content-Encoding", packed)
	}
	return result{
		status: http.StatusOK,
		stream: func(w http.ResponseWriter) int64 { return h.writeExport(w, q, &r, packed) },
		done: func() {
			free()
			leave()
		},
	}, nil
}

// exportOf reads what is asked for. Without a format Accept decides.
func (h *Handler) exportOf(q *request) (r export.Request, f *wire.Failure) {
	var kind, format string
	for _, m := range []struct {
		name string
		text *string
	}{{"type", &kind}, {"date", &r.Date}, {"market", &r.Market}, {"format", &format}} {
		*m.text = q.params.get(m.name)
	}
	var ok bool
	if r.Type, ok = export.ParseType(kind); !ok {
		return r, wire.NewFailure(wire.BadField, "type", "must be trades, quotes, bars or depth")
	}
	if _, err := time.Parse(dateFormat, r.Date); err != nil {
		return r, wire.NewFailure(wire.BadField, "date", "must be a date like 2026-11-20")
	}
	if r.Market != "" && !h.hasMarket(r.Market) {
		return r, wire.NewFailure(wire.BadField, "market", "is not a market of GET /market/markets")
	}
	switch {
	case format != "":
		r.Format, ok = export.ParseFormat(format)
	case q.media == mediaCSV:
		r.Format = export.CSV
	case q.media == mediaLines:
		r.Format = export.NDJSON
	default:
		r.Format = export.Parquet
	}
	if !ok {
		return r, wire.NewFailure(wire.BadField, "format", "must be parquet, csv or ndjson")
	}
	return r, nil
}

func (h *Handler) hasMarket(name string) bool {
	for _, m := range h.cfg.Hub.Markets() {
		if m.ID == name {
			return true
		}
	}
	return false
}

// virtual says whether a market has instruments whose times are not those of this clock.
func (h *Handler) virtual(name string) bool {
	return slices.ContainsFunc(h.cfg.Hub.Listing().Instruments, func(in market.Instrument) bool { return in.ID.Market == name && in.VirtualClock })
}

// mayExport refuses who has no right to all that is in the file, or not yet.
func (h *Handler) mayExport(q *request, r *export.Request) error {
	channel := wire.Trades
	switch r.Type {
	case export.Quotes:
		channel = wire.Quotes
	case export.Depth:
		if f := q.needScope(broker.ScopeDepth); f != nil {
			return f
		}
		channel = wire.OrderBook
	}
	names := export.Markets(h.cfg.Journal.Archive, *r)
	if r.Market != "" {
		names = []string{r.Market}
	}
	late := 0
	for _, name := range names {
		delay, allowed := right(&q.user, name, channel, 0) // an export has all levels
		if !allowed {
			return h.deny(q, name, channel, "No right to the "+r.Type.String()+" of "+name)
		}
		q.uses(name, channel, delay)
		if late = max(late, delay); delay > 0 && h.virtual(name) {
			return wire.NewFault(wire.NotEntitled, "The days of "+name+" are of a virtual clock: who gets its data late gets none of them at once")
		}
	}
	day, err := time.Parse(dateFormat, r.Date)
	if err != nil || late > 0 && time.Since(day.AddDate(0, 0, 1)) < time.Duration(late)*time.Second {
		return &wire.Fault{Reason: wire.NotFound, Msg: "The day is not over yet at your delay"}
	}
	return nil
}

// closedDay is the hash of a day that may be exported.
func (h *Handler) closedDay(date string) (hash string, err error) {
	for _, d := range h.cfg.Journal.Days() {
		switch {
		case d.Date != date:
		case !d.Closed:
			return "", &wire.Fault{Reason: wire.NotFound, Msg: "The day is not closed yet", Hint: "Pages of history have it already"}
		default:
			return d.Hash, nil
		}
	}
	return "", &wire.Fault{Reason: wire.NotFound, Msg: "The day is not kept", Hint: h.keptHint()}
}

func fileName(r *export.Request) string {
	name := r.Type.String() + "-" + r.Date
	if r.Market != "" {
		name += "-" + r.Market
	}
	return name + "." + r.Format.String()
}

// pieceBytes is how much of a file is written at once.
const pieceBytes = 64 << 10

// writeExport writes the file. Once it has begun, what goes wrong can only be told by cutting it off.
func (h *Handler) writeExport(w http.ResponseWriter, q *request, r *export.Request, coding string) int64 {
	if q.Method == http.MethodHead {
		return 0
	}
	out := newCourier(q.Context(), w, h.readers)
	err := out.control.SetReadDeadline(time.Time{}) // a file may take longer than a request
	if err == nil || errors.Is(err, http.ErrNotSupported) {
		err = h.pour(out, r, coding)
	}
	if err == nil {
		_, err = h.closedDay(r.Date) // rows of a day that was removed meanwhile may be missing
	}
	switch {
	case err == nil:
		return out.written
	case out.failed == nil && q.Context().Err() == nil:
		h.log.LogAttrs(q.Context(), slog.LevelError, "export failed", slog.String(keyRequest, q.id), slog.Any(keyError, err))
	}
	panic(http.ErrAbortHandler)
}

func (h *Handler) pour(out *courier, r *export.Request, coding string) error {
	if err := out.enter(); err != nil {
		return err
	}
	defer out.exit()
	pieces := bufio.NewWriterSize(out, pieceBytes)
	packed, err := h.packers.writer(pieces, coding)
	if err != nil {
		return err
	}
	if packed == nil {
		_, err = export.Write(out.ctx, pieces, h.cfg.Journal.Archive, *r)
	} else {
		_, err = export.Write(out.ctx, packed, h.cfg.Journal.Archive, *r)
		err = errors.Join(err, packed.Close())
	}
	return errors.Join(err, pieces.Flush())
}

// courier brings pieces of a file to a client. Meanwhile somebody else may read, and each piece
// has its own time.
type courier struct {
	ctx      context.Context
	w        io.Writer
	control  *http.ResponseController
	readers  *lanes
	reads    bool // a reader's lane is held
	written  int64
	patience time.Duration // how long the client may still take for nothing
	failed   error         // of the client, or of the wait
}

func newCourier(ctx context.Context, w http.ResponseWriter, readers *lanes) *courier {
	return &courier{ctx: ctx, w: w, control: http.NewResponseController(w), readers: readers, patience: leastSpan}
}

// enter waits for a reader's lane.
func (c *courier) enter() error {
	err := c.readers.enter(c.ctx)
	c.reads = err == nil
	return err
}

// exit gives the lane back, if there is one.
func (c *courier) exit() {
	if c.reads {
		c.reads = false
		c.readers.exit()
	}
}

// Write implements io.Writer.
func (c *courier) Write(b []byte) (int, error) {
	if c.failed != nil {
		return 0, c.failed
	}
	c.exit()
	before := c.written
	if c.failed = inPieces(b, c.bring); c.failed == nil {
		c.failed = c.enter()
	}
	return int(c.written - before), c.failed
}

// bring brings a piece in the time that the client has for it.
func (c *courier) bring(b []byte) (int, error) {
	start := time.Now()
	most := c.patience + time.Duration(len(b))*time.Second/leastRate
	if err := c.control.SetWriteDeadline(start.Add(min(writeTimeout, most))); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	n, err := c.w.Write(b)
	c.written += int64(n)
	c.patience = min(leastSpan, most-time.Since(start))
	return n, err
}
