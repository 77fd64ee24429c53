package ndjson

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/feed/feedtest"
	"github.com/ruedahq/rueda/market"
)

// numberStore is a sink that stores numbers.
type numberStore struct {
	*feedtest.Recorder

	mu        sync.Mutex
	numbering string
	held      []feed.Held
	numbers   map[market.Handle]string
	stored    chan struct{} // AwaitStored takes an element
	awaited   [][]feed.Held
}

func (s *numberStore) Resume(numbering string) ([]feed.Held, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if numbering != s.numbering {
		return nil, true
	}
	return slices.Clone(s.held), true
}

func (s *numberStore) Number(h market.Handle, numbering string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.numbers[h] = numbering
}

func (s *numberStore) AwaitStored(ctx context.Context, list []feed.Held) error {
	s.mu.Lock()
	s.awaited = append(s.awaited, slices.Clone(list))
	s.mu.Unlock()
	select {
	case <-s.stored:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// line returns the next answer as it is.
func (c *client) line() string {
	c.t.Helper()
	if !c.in.Scan() {
		c.t.Fatalf("no answer: %v", c.in.Err())
	}
	return c.in.Text()
}

// TestResume checks the answer to a Hello that resumes, which waits until its numbers are stored.
// Lines that the log has are skipped. The others are published, and acknowledged when they are
// stored. A missing one is a gap.
func TestResume(t *testing.T) {
	s := &numberStore{Recorder: &feedtest.Recorder{}, numbering: "day-1", numbers: map[market.Handle]string{}, stored: make(chan struct{}, 1)}
	al30 := market.InstrumentID{Symbol: "AL30", Market: "BYMA", Term: "CI"}
	s.held = []feed.Held{{ID: ggal, Channel: feed.Trades, Sequence: 1042}, {ID: al30, Channel: feed.Statuses, Sequence: 3}, {ID: ggal, Channel: feed.Books, Sequence: 7}}
	run := start(t, Config{}, s)
	s.stored <- struct{}{}
	p := run.connect().send(`{"type":"Hello","name":"p","resume":"day-1"}`)
	const want = `{"type":"Hello","resume":"day-1","last":{"AL30|BYMA|CI":{"H":3},"GGAL|BYMA|24hs":{"O":7,"T":1042}}}`
	if got := p.line(); got != want {
		t.Errorf("answered %s\nwant %s", got, want)
	}
	s.mu.Lock()
	if len(s.awaited) != 1 || len(s.awaited[0]) != len(s.held) {
		t.Errorf("answered when these were stored: %+v", s.awaited)
	}
	s.mu.Unlock()
	p.send(defineGGAL,
		`{"type":"T","I":"GGAL|BYMA|24hs","SQ":1041,"P":7000,"Z":1}`,
		`{"type":"T","I":"GGAL|BYMA|24hs","SQ":1042,"P":7001,"Z":2}`,
		`{"type":"O","I":"GGAL|BYMA|24hs","SQ":7,"R":true,"B":[[7049.5,300]],"A":[[7050,1200]]}`,
		`{"type":"O","I":"GGAL|BYMA|24hs","SQ":8,"A":[[7050,100]]}`,
		`{"type":"T","I":"GGAL|BYMA|24hs","SQ":1043,"P":7002,"Z":3}`)
	same(t, wait(t, s.Recorder, 3)[2:], []string{"GGAL|BYMA|24hs trade 3 at 7002"})
	s.stored <- struct{}{}
	if got := p.line(); got != `{"type":"Ack","last":{"GGAL|BYMA|24hs":{"O":8,"T":1043}}}` {
		t.Errorf("acknowledged %s", got)
	}
	p.send(`{"type":"T","I":"GGAL|BYMA|24hs","SQ":1045,"P":7003,"Z":4}`)
	if got := p.answer(); got.Reason != "sequence_gap" {
		t.Errorf("a missing number is answered with %+v", got)
	}
	p.send(`{"type":"T","I":"GGAL|BYMA|24hs","SQ":1045,"P":7003,"Z":4}`)
	if got := p.answer(); got.Reason != "bad_field" {
		t.Errorf("a number that was used is answered with %+v", got)
	}
	if n := run.source.Stats().Repeated; n != 2 {
		t.Errorf("%d lines were repeated, want 2", n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.numbers) != 1 {
		t.Errorf("numbers are stored of %v", s.numbers)
	}
}

// TestResumeAnotherNumbering checks that numbers of another numbering are not compared.
func TestResumeAnotherNumbering(t *testing.T) {
	s := &numberStore{Recorder: &feedtest.Recorder{}, numbering: "day-1", numbers: map[market.Handle]string{}, stored: make(chan struct{}, 1)}
	s.held = []feed.Held{{ID: ggal, Channel: feed.Trades, Sequence: 1042}}
	p := start(t, Config{}, s).connect().send(`{"type":"Hello","resume":"day-2"}`)
	if got := p.line(); got != `{"type":"Hello","resume":"day-2","last":{}}` {
		t.Errorf("answered %s", got)
	}
	p.send(defineGGAL, `{"type":"T","I":"GGAL|BYMA|24hs","SQ":1,"P":7000,"Z":1}`)
	same(t, wait(t, s.Recorder, 1), []string{"GGAL|BYMA|24hs trade 1 at 7000"})
}

// TestResumeThenNone checks that no numbers are stored of a producer that does not resume, although
// another one has resumed with its instrument before.
func TestResumeThenNone(t *testing.T) {
	s := &numberStore{Recorder: &feedtest.Recorder{}, numbering: "day-1", numbers: map[market.Handle]string{}, stored: make(chan struct{}, 1)}
	run := start(t, Config{}, s)
	first := run.connect().send(`{"type":"Hello","name":"p","resume":"day-1"}`)
	first.line()
	first.send(defineGGAL, `{"type":"T","I":"GGAL|BYMA|24hs","SQ":1,"P":7000,"Z":1}`)
	wait(t, s.Recorder, 1)
	run.connect().send(`{"type":"Hello","name":"p"}`, defineGGAL, `{"type":"T","I":"GGAL|BYMA|24hs","SQ":5000,"P":7001,"Z":1}`)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	isSecond := func(e market.Event) bool { return e.Kind == market.KindTrade && e.Sequence == 5000 }
	if err := s.Recorder.Wait(ctx, func(events []market.Event) bool { return slices.ContainsFunc(events, isSecond) }); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for h, numbering := range s.numbers {
		if numbering != "" {
			t.Errorf("numbers of handle %d are stored in %q", h, numbering)
		}
	}
}

// TestResumeRefused checks what a producer is answered that cannot resume.
func TestResumeRefused(t *testing.T) {
	for name, sink := range map[string]feed.Sink{
		"no journal": &feedtest.Recorder{},
		"bad name":   &numberStore{Recorder: &feedtest.Recorder{}},
	} {
		t.Run(name, func(t *testing.T) {
			word := "day"
			if name == "bad name" {
				word = "a day"
			}
			p := start(t, Config{}, sink).connect().send(`{"type":"Hello","resume":"` + word + `"}`)
			if got := p.answer(); got.Reason != "bad_field" {
				t.Errorf("answered %+v", got)
			}
			p.closed()
		})
	}
}
