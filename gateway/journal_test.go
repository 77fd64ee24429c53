package gateway_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// ending is a source that reports its end.
type ending struct {
	feed.Source
	ended chan struct{}
}

func (e ending) Run(ctx context.Context, sink feed.Sink) error {
	defer close(e.ended)
	return e.Source.Run(ctx, sink)
}

// TestOnJournal checks that OnJournal gets the newest time of the requested instruments, and not
// that of another feed whose clock is far ahead.
func TestOnJournal(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	exchange, err := sim.New(sim.Config{Seed: 1, Clock: sim.Virtual, Speed: -1, Instruments: 3, Start: start, Duration: 30 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	other := market.InstrumentID{Symbol: "FAR", Market: "TEST", Term: "CI"}
	ahead := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	far := source(func(_ context.Context, sink feed.Sink) error {
		h, err := sink.Define(market.Instrument{ID: other, VirtualClock: true})
		if err != nil {
			return err
		}
		return sink.Publish([]market.Event{{Kind: market.KindTrade, Handle: h, Time: ahead.UnixNano(), Price: market.Scale, Size: market.Scale}})
	})
	var own []market.InstrumentID
	for _, in := range exchange.Instruments() {
		own = append(own, in.ID)
	}
	var got [][3]time.Time // of the exchange, of the other feed, without instruments
	var result error
	feeds := []ending{{exchange, make(chan struct{})}, {far, make(chan struct{})}}
	config := gateway.Config{
		Listener: newPipes(),
		Feeds:    []gateway.Feed{{Name: "sim", Source: feeds[0]}, {Name: "far", Source: feeds[1]}},
		Journal:  gateway.Journal{Folder: folder},
		OnJournal: func(newest func([]market.InstrumentID) (time.Time, error)) error {
			var times [3]time.Time
			for i, ids := range [][]market.InstrumentID{own, {other}, {{Symbol: "NONE", Market: "TEST", Term: "CI"}}} {
				if times[i], err = newest(ids); err != nil {
					return err
				}
			}
			got = append(got, times)
			return result
		},
	}
	t.Run("run", func(t *testing.T) {
		run(t, config)
		<-feeds[0].ended
		<-feeds[1].ended
	})
	result = errors.New("not after this")
	if _, err := gateway.New(t.Context(), config); !errors.Is(err, result) {
		t.Errorf("New: %v", err)
	}
	if len(got) != 2 || got[0] != [3]time.Time{} {
		t.Fatalf("newest times: %v", got)
	}
	if first, last := start.Add(90*time.Minute), start.Add(3*time.Hour); got[1][0].Before(first) || got[1][0].After(last) {
		t.Errorf("newest of the exchange: %v, want %v to %v", got[1][0], first, last)
	}
	if !got[1][1].Equal(ahead) || !got[1][2].IsZero() {
		t.Errorf("newest of the other feed %v, of no instrument %v", got[1][1], got[1][2])
	}
}

// TestTemporary checks that abandoned folders are removed and other folders stay.
func TestTemporary(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	create := func() (gateway.Journal, func() error) {
		t.Helper()
		j, remove, err := gateway.Journal{Days: 2}.Temporary("some-")
		if err != nil || j.Days != 2 || filepath.Dir(j.Folder) != os.TempDir() {
			t.Fatalf("%+v, %v", j, err)
		}
		return j, remove
	}
	age := func(folder string, by time.Duration) {
		t.Helper()
		if at := time.Now().Add(-by); os.Chtimes(folder, at, at) != nil {
			t.Fatal("no time set")
		}
	}
	lock := func(folder string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, "lock"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	there := func(folder string) bool { _, err := os.Stat(folder); return err == nil }

	left, _ := create()
	lock(left.Folder)
	young, _ := create()
	lock(young.Folder)
	unused, _ := create() // another process may be about to use it
	used, _ := create()
	j, err := journal.Open(t.Context(), journal.Config{Folder: used.Folder})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	other := filepath.Join(os.TempDir(), "other-1")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	lock(other)
	for _, folder := range []string{left.Folder, unused.Folder, used.Folder, other} {
		age(folder, 2*time.Minute)
	}
	own, remove := create()
	if there(left.Folder) {
		t.Error("what was left behind is still there")
	}
	for _, folder := range []string{young.Folder, unused.Folder, used.Folder, other, own.Folder} {
		if !there(folder) {
			t.Errorf("%s is gone", folder)
		}
	}
	if err := remove(); err != nil || there(own.Folder) {
		t.Errorf("removed: %v", err)
	}
}
