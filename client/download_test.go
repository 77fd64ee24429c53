package client_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ruedahq/rueda/client"
	rueda "github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/ruedatest"
)

// cutting cuts off the bodies of the first exports after some bytes.
type cutting struct {
	http.RoundTripper
	exports, cuts atomic.Int64
}

func (c *cutting) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.RoundTripper.RoundTrip(r)
	if err == nil && r.URL.Path == "/market/export" {
		if c.exports.Add(1); c.cuts.Add(-1) >= 0 {
			answer.Body = cutBody{io.LimitReader(answer.Body, 1000), answer.Body}
		}
	}
	return answer, err
}

type cutBody struct {
	io.Reader
	io.Closer
}

func (b cutBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// TestDownload downloads a closed day over a connection that is cut off.
func TestDownload(t *testing.T) {
	t.Parallel()
	const rows = 1500
	days := streamtest.Days{Folder: filepath.Join(t.TempDir(), "journal"), Closed: 1, Rows: rows}
	days.Write(t)
	s := ruedatest.Start(t, ruedatest.Config{Change: func(c *rueda.Config) { c.Journal.Folder = days.Folder }})
	c := connect(t, s, client.Options{}, client.Set{})
	network := &cutting{}
	c.Wrap(func(t http.RoundTripper) http.RoundTripper { network.RoundTripper = t; return network })
	date, later := day(t, "2025-11-21"), day(t, "2026-11-21")
	folder := t.TempDir()
	csv := filepath.Join(folder, "trades.csv")
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	names := func() (list []string) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			list = append(list, e.Name())
		}
		return list
	}

	awaitClosed(t, c, date)
	network.exports.Store(0)
	network.cuts.Store(2)
	var progress []int64
	lost := []client.Lost{{Reason: "of an earlier call"}}
	x := client.Export{Table: "trades", Date: date, Lost: &lost, Progress: func(n int64) { progress = append(progress, n) }}
	if err := c.Download(t.Context(), x, csv); err != nil {
		t.Fatal(err)
	}
	text := read(csv)
	if lines := strings.Count(text, "\n"); lines != 1+rows+1 || // the header, and one of another instrument
		len(lost) > 0 || network.exports.Load() != 3 {
		t.Errorf("%d lines, lost %v, %d exports", lines, lost, network.exports.Load())
	}
	if last := progress[len(progress)-1]; last != int64(len(text)) || !slices.Equal(progress[:2], []int64{1000, 1000}) {
		t.Errorf("progress %v of %d", progress, len(text))
	}

	// A download that does not end leaves the older file, and no other one.
	network.cuts.Store(3)
	if err := c.Download(t.Context(), x, csv); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
	if read(csv) != text || !slices.Equal(names(), []string{"trades.csv"}) {
		t.Errorf("after a failure: %v", names())
	}
	x.Table, x.Market = "bars", "BYMA"
	if err := c.Download(t.Context(), x, filepath.Join(folder, "bars.parquet")); err != nil || !strings.HasPrefix(read(filepath.Join(folder, "bars.parquet")), "PAR1") {
		t.Errorf("bars: %v", err)
	}

	// Mistakes end it at once.
	network.exports.Store(0)
	for file, want := range map[string]string{
		filepath.Join(folder, "day.txt"):         ".parquet, .csv or .ndjson",
		filepath.Join(folder, "none/day.csv"):    "no such file",
		filepath.Join(folder, "tomorrow.ndjson"): "not_found",
	} {
		x := x
		if strings.Contains(file, "tomorrow") {
			x.Date = later
		}
		if err := c.Download(t.Context(), x, file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
	if n := network.exports.Load(); n > 2 {
		t.Errorf("%d requests for mistakes", n)
	}
}

func day(t *testing.T, text string) market.Date {
	t.Helper()
	date, err := market.ParseDate(text)
	if err != nil {
		t.Fatal(err)
	}
	return date
}

// awaitClosed waits until the gateway has closed a day after its start.
func awaitClosed(t *testing.T, c *client.Client, date market.Date) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "day.parquet")
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := c.Download(t.Context(), client.Export{Table: "quotes", Date: date}, file)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestDownloadIsIncomplete downloads a day of which rows are missing.
func TestDownloadIsIncomplete(t *testing.T) {
	t.Parallel()
	days := streamtest.Days{Folder: filepath.Join(t.TempDir(), "journal"), Closed: 1, Rows: 1500}
	days.Write(t)
	days.RemoveSegment(t, "2025-11-21")
	s := ruedatest.Start(t, ruedatest.Config{Change: func(c *rueda.Config) { c.Journal.Folder = days.Folder }})
	var log bytes.Buffer
	c := connect(t, s, client.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, client.Set{})
	date := day(t, "2025-11-21")
	awaitClosed(t, c, date)
	log.Reset()
	file := filepath.Join(t.TempDir(), "trades.csv")
	x := client.Export{Table: "trades", Date: date, RequireComplete: true}
	var incomplete *client.IncompleteError
	if err := c.Download(t.Context(), x, file); !errors.As(err, &incomplete) || len(incomplete.Lost) != 2 {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	x.RequireComplete = false
	if err := c.Download(t.Context(), x, file); err != nil || strings.Count(log.String(), "rows of an export are missing") != 1 {
		t.Errorf("%v, %s", err, &log)
	}
	x.Lost = new([]client.Lost)
	if err := c.Download(t.Context(), x, file); err != nil || len(*x.Lost) != 2 || (*x.Lost)[0].Instrument != days.ID() || (*x.Lost)[0].From == 0 {
		t.Errorf("%v, %v", err, *x.Lost)
	}
}
