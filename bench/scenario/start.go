package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ruedahq/rueda/bench/host"
	"github.com/ruedahq/rueda/bench/load"
	"github.com/ruedahq/rueda/bench/pattern"
)

const (
	startTrades      = 300_000 // each with a quote and a change of the book: three rows
	startInstruments = 100
)

// starts measures how long a gateway takes to start on a journal. All runs start on copies of one
// journal.
type starts struct {
	folder string // of the journal and its copies
	trades int
	epoch  string // of the journal; "": not written
}

// journalTrades returns the number of trades of the journal for a start.
func (o *Options) journalTrades() int {
	if o.Conns > 0 {
		return min(startTrades, startInstruments*o.Conns)
	}
	return startTrades
}

func startName(trades int) string { return fmt.Sprintf("start on %d rows", 3*trades) }

// once makes one run on a new copy of the journal.
func (s *starts) once(ctx context.Context, o *Options, r *Report) (run *Run, err error) {
	journal, own := filepath.Join(s.folder, "journal"), filepath.Join(s.folder, "copy")
	if s.epoch == "" {
		writer := *o
		writer.Serve = o.Old // both can read it
		if s.epoch, err = s.write(ctx, &writer, journal); err != nil {
			return nil, fmt.Errorf("write the journal: %w", err)
		}
	}
	defer func() { err = errors.Join(err, os.RemoveAll(own)) }()
	if err := errors.Join(s.forgetPages(), os.CopyFS(own, os.DirFS(journal))); err != nil {
		return nil, err
	}
	g, err := hostRig(ctx, o, host.Config{Conns: 1, Instruments: startInstruments, Journal: true, Folder: own})
	defer func() { err = errors.Join(err, g.close()) }()
	if err != nil {
		return nil, err
	}
	r.Limits = g.limits
	run = &Run{Seconds: g.ready, Cores: g.readyCPU / g.ready, Foreign: g.foreign}
	opened, err := g.open(load.Config{Conns: 1, Sets: oneTopic()})
	if err == nil && opened.Epoch != s.epoch {
		run.Error = fmt.Sprintf("epoch %s does not continue %s of the journal", opened.Epoch, s.epoch)
	}
	return run, err
}

// forgetPages removes what shared memory has of the journal. By that, a copy is older than what the
// run before it has written, and would begin a new epoch.
func (s *starts) forgetPages() error {
	pages, err := filepath.Glob("/dev/shm/rueda-*")
	for _, name := range pages {
		page, fault := os.ReadFile(name)
		if fault == nil && bytes.Contains(page, []byte(s.folder)) {
			err = errors.Join(err, os.Remove(name))
		}
	}
	return err
}

// write writes the journal and returns its epoch.
func (s *starts) write(ctx context.Context, o *Options, folder string) (epoch string, err error) {
	g, err := hostRig(ctx, o, host.Config{Conns: 1, Instruments: startInstruments, Journal: true, Folder: folder})
	defer func() { err = errors.Join(err, g.close()) }()
	if err != nil {
		return "", err
	}
	for n := 0; n < s.trades; n += startInstruments {
		// A batch has one trade of each instrument: quotes of the same one would be merged.
		if err := g.publish(pattern.Pattern{Kind: pattern.Once, Batch: startInstruments, Spread: startInstruments, Quotes: true}); err != nil {
			return "", err
		}
		if err := g.server.Ask("stop", nil, nil); err != nil {
			return "", err
		}
	}
	opened, err := g.open(load.Config{Conns: 1, Sets: oneTopic()})
	if err != nil {
		return "", err
	}
	return opened.Epoch, nil
}
