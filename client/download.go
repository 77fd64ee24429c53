package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// Export is a table of a closed day, see docs/export.md.
type Export struct {
	Table  string      // trades, quotes, bars or depth
	Date   market.Date // day in UTC, for all markets
	Market string      // "": all markets
	// Progress is called with the number of bytes that were received, which begins at 0 again if the
	// download does; nil: no calls.
	Progress func(bytes int64)

	// Lost is set to the rows that the file lacks, as far as the gateway knows them; nil: they are a
	// warning in the log.
	Lost *[]Lost
	// RequireComplete makes missing rows an *IncompleteError. Then no file is written.
	RequireComplete bool
}

// Download writes a table of a closed day to a file, whose ending says the format: .parquet, .csv
// or .ndjson. The file appears only when it is complete, and replaces an older one. A download that
// is cut off begins again, up to twice.
func (c *Client) Download(ctx context.Context, x Export, file string) error {
	format := strings.TrimPrefix(filepath.Ext(file), ".")
	if format != "parquet" && format != "csv" && format != "ndjson" {
		return fmt.Errorf("client: the name %q does not end with .parquet, .csv or .ndjson", file)
	}
	query := url.Values{"type": {x.Table}, "date": {x.Date.String()}, "format": {format}}
	if x.Market != "" {
		query.Set("market", x.Market)
	}
	save := func(answer *http.Response, cancel func()) error {
		if err := c.exported(&x, answer.Header.Get("Rueda-Lost")); err != nil {
			return err
		}
		return replaceFile(file, 0o666, func(w io.Writer) error {
			err := copyAnswer(w, answer.Body, cancel, x.Progress)
			if lost := answer.Trailer.Get("Rueda-Lost"); err == nil && lost != "" { // it repeats the list of the header
				err = c.exported(&x, lost)
			}
			return err
		})
	}
	return c.call(ctx, request{method: http.MethodGet, path: "/market/export", query: query, token: true, save: save}, nil)
}

// copyAnswer copies an answer to a file. It cancels the request if no bytes come for answerTimeout.
func copyAnswer(to io.Writer, from io.Reader, cancel func(), progress func(int64)) error {
	silent := time.AfterFunc(answerTimeout, cancel)
	defer silent.Stop()
	part, done := make([]byte, 64<<10), int64(0)
	for {
		n, err := from.Read(part)
		silent.Reset(answerTimeout)
		if _, failed := to.Write(part[:n]); failed != nil {
			return failed
		}
		if done += int64(n); n > 0 && progress != nil {
			progress(done)
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return broken(err)
		}
	}
}

// exported reports the rows that an export lacks, which it reads from a header. Its error ends the
// download.
func (c *Client) exported(x *Export, header string) error {
	if x.Lost != nil {
		*x.Lost = nil
	}
	if header == "" {
		return nil
	}
	var ranges []struct {
		Instrument, Interval string
		From, To             uint64
		Start, End           time.Time
		Reason               string
	}
	if err := unmarshal([]byte(header), &ranges); err != nil {
		return err
	}
	channel := map[string]wire.Channel{"trades": wire.Trades, "quotes": wire.Quotes, "bars": wire.Bars, "depth": wire.OrderBook}[x.Table]
	var list []Lost
	for _, r := range ranges {
		series := stream.Series{Channel: channel}
		series.Instrument, _ = market.ParseInstrumentID(r.Instrument) // "": all that follow
		if interval, ok := market.ParseInterval(r.Interval); ok {
			series.Channel = wire.BarsOf(interval)
		}
		list = append(list, Lost{Series: series, From: r.From, To: r.To, Start: r.Start, End: r.End, Reason: printable(r.Reason)})
	}
	switch {
	case x.Lost != nil:
		*x.Lost = list
	case !x.RequireComplete && len(list) > 0:
		c.log.Warn("rows of an export are missing", "table", x.Table, "date", x.Date.String(), "reason", list[0].String())
	}
	if x.RequireComplete && len(list) > 0 {
		return &IncompleteError{Lost: list}
	}
	return nil
}
