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
	"github.com/ruedahq/rueda/internal/journal"
)

// ending is a source that tells when it has ended.
type ending struct {
	feed.Source
	ended chan struct{}
}

func (e ending) Run(ctx context.Context, sink feed.Sink) error {
	defer close(e.ended)
	return e.Source.Run(ctx, sink)
}

// TestOnJournal wants to be told, before anything runs, to what time a journal goes.
func TestOnJournal(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	source, err := sim.New(sim.Config{Seed: 1, Clock: sim.Virtual, Speed: -1, Instruments: 3, Start: start, Duration: 30 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	whole := ending{source, make(chan struct{})}
	var told []time.Time
	config := gateway.Config{
		Listener:  newPipes(),
		Feeds:     []gateway.Feed{{Name: "sim", Source: whole}},
		Journal:   gateway.Journal{Folder: folder},
		OnJournal: func(newest time.Time) error { told = append(told, newest); return nil },
	}
	t.Run("run", func(t *testing.T) {
		run(t, config)
		<-whole.ended
	})
	refusal := errors.New("not after this")
	config.OnJournal = func(newest time.Time) error { told = append(told, newest); return refusal }
	if _, err := gateway.New(config); !errors.Is(err, refusal) {
		t.Errorf("New: %v", err)
	}
	if len(told) != 2 || !told[0].IsZero() || told[1].Before(start.Add(90*time.Minute)) || told[1].After(start.Add(3*time.Hour)) {
		t.Errorf("newest times: %v", told)
	}
}

// TestTemporary wants folders that were left behind to go, and those of others to stay.
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
	unused, _ := create() // somebody may be about to
	used, _ := create()
	j, err := journal.Open(journal.Config{Folder: used.Folder})
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
