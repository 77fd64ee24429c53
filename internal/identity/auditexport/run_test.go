package auditexport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/store"
)

// fakeReceiver is a receiver in memory.
type fakeReceiver struct {
	settles time.Duration
	mu      sync.Mutex
	down    bool // Send fails
	dead    bool // Send never returns
	ended   bool // the connection has ended, with the rows that were not settled
	got     []audit.Row
	largest int
}

func (f *fakeReceiver) Name() string          { return "fake" }
func (f *fakeReceiver) Settle() time.Duration { return f.settles }

func (f *fakeReceiver) Check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return errors.New("ended")
	}
	return nil
}

func (f *fakeReceiver) Close() { f.set(func() { f.ended = false }) }

func (f *fakeReceiver) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeReceiver) Send(ctx context.Context, rows []audit.Row) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		f.mu.Unlock()
		<-ctx.Done()
		f.mu.Lock()
		return ctx.Err()
	}
	if f.down {
		return errors.New("down")
	}
	f.got, f.largest = append(f.got, rows...), max(f.largest, len(rows))
	return nil
}

// check compares what was received with the rows 1 to n: all are there, with the hashes of the log.
func (f *fakeReceiver) check(t *testing.T, log *store.SQLite, n int64) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	have := map[audit.Head]bool{}
	for _, r := range f.got {
		have[r.Head()] = true
	}
	count := int64(0)
	for row, err := range log.AuditRows(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if count++; !have[row.Head()] {
			t.Errorf("row %d was not received", row.Seq)
		}
	}
	if count != n {
		t.Errorf("the log has %d rows, want %d", count, n)
	}
}

// world is an audit log with its exports, in a bubble.
type world struct {
	*testing.T
	log    *store.SQLite
	said   lockedBuilder
	logger *slog.Logger
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s, err := store.OpenInMemory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	s.UseChain(audit.NewChain([]byte("key")))
	w := &world{T: t, log: s}
	w.logger = slog.New(slog.NewTextHandler(&w.said, nil))
	return w
}

func (w *world) logins(n int) {
	w.Helper()
	events := make([]audit.Event, n)
	for i := range events {
		events[i] = audit.Event{Time: time.Now(), Kind: audit.Login, User: fmt.Sprint("u", i)}
	}
	if err := w.log.Append(w.Context(), events...); err != nil {
		w.Fatal(err)
	}
}

// start runs an export as a process would.
func (w *world) start(holder string, to Receiver) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan struct{})
	e := &export{log: w.log, to: to, holder: holder, logger: w.logger}
	go func() {
		e.run(ctx)
		close(done)
	}()
	return func() { cancel(); <-done }
}

// pass lets time pass in a bubble, and waits until the exports have done what is due.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

type lockedBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuilder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestNothingIsLost sends rows through outages, restarts and a receiver that answers nothing. All
// arrive at least once, in bounded batches, and sending never delays the log.
func TestNothingIsLost(t *testing.T) {
	for _, settles := range []time.Duration{0, 5 * time.Second} {
		t.Run(settles.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, to := newWorld(t), &fakeReceiver{settles: settles}
				w.logins(3)
				stop := w.start("a", to)
				pass(20 * time.Second)
				to.check(t, w.log, 3)
				to.set(func() { to.down = true })
				w.logins(1200)
				pass(10 * time.Minute)
				to.set(func() { to.down, to.dead = false, true })
				began := time.Now()
				w.logins(1)
				if d := time.Since(began); d > 0 {
					t.Errorf("a login waited %v for a dead receiver", d)
				}
				pass(10 * time.Minute)
				stop() // with a send in flight
				to.set(func() { to.dead = false })
				w.logins(1)
				stop = w.start("b", to)
				pass(20 * time.Second)
				to.check(t, w.log, 1205)
				stop()
				if to.largest > maxRows {
					t.Errorf("a batch of %d rows", to.largest)
				}
				exports, err := w.log.AuditExports(t.Context())
				if err != nil || len(exports) != 1 || exports[0].Sent.Seq != 1205 || exports[0].Holder != "b" || exports[0].Until.After(time.Now()) {
					t.Errorf("%+v, %v", exports, err)
				}
				n := strings.Count(w.said.String(), "audit log not exported, retrying")
				if n < 10 || n > 25 || strings.Count(w.said.String(), "count=1200") == 0 {
					t.Errorf("%d log lines about the outage:\n%s", n, w.said.String())
				}
			})
		})
	}
}

// TestLostConnection loses rows that a connection accepted shortly before it ended. They are sent
// again, and no older ones.
func TestLostConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, to := newWorld(t), &fakeReceiver{settles: settleTime}
		defer w.start("a", to)()
		w.logins(10)
		pass(time.Minute)
		w.logins(5)
		pass(2 * time.Second)
		to.set(func() { to.ended, to.got = true, to.got[:10] })
		pass(time.Minute)
		to.check(t, w.log, 15)
		if len(to.got) != 15 {
			t.Errorf("%d rows were received, want 15", len(to.got))
		}
	})
}

// TestOneSender lets one of two processes send. The other one continues when it has stopped, or
// when its lease has passed.
func TestOneSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, first, second := newWorld(t), &fakeReceiver{}, &fakeReceiver{}
		stopFirst := w.start("a", first)
		pass(time.Second)
		stopSecond := w.start("b", second)
		for range 60 {
			w.logins(1)
			pass(time.Second)
		}
		pass(2 * pollInterval)
		if first.check(t, w.log, 60); len(first.got) != 60 || len(second.got) != 0 {
			t.Errorf("received %d and %d", len(first.got), len(second.got))
		}
		stopFirst()
		w.logins(1)
		pass(lease / 2)
		if len(second.got) != 1 {
			t.Errorf("%d rows after the first process ended", len(second.got))
		}
		stopSecond()
		// A process that was killed returns no lease.
		if _, ok, err := w.log.ClaimExport(t.Context(), "fake", "killed", lease); !ok || err != nil {
			t.Fatal(ok, err)
		}
		w.logins(1)
		defer w.start("c", second)()
		pass(lease + lease/2)
		if len(second.got) != 2 {
			t.Errorf("%d rows after the lease had passed", len(second.got))
		}
	})
}

// TestThreat34ExportNoticesCut removes rows that were sent, under a running gateway and while none
// runs. It is in the log and in a row, and the receiver gets the numbers again with other hashes.
func TestThreat34ExportNoticesCut(t *testing.T) {
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprint("running ", running), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, to := newWorld(t), &fakeReceiver{}
				w.logins(19)
				stop := w.start("a", to)
				pass(time.Minute)
				w.logins(1)
				pass(3 * pollInterval / 2) // the position was just checked: the next rows show the cut
				if !running {
					stop()
				}
				if _, err := w.log.Writer().ExecContext(t.Context(), `DELETE FROM audit WHERE seq > 15`); err != nil {
					t.Fatal(err)
				}
				w.logins(30)
				if !running {
					stop = w.start("a", to)
				}
				pass(time.Minute)
				stop()
				if !strings.Contains(w.said.String(), "audit log was cut or changed") {
					t.Error("nothing in the log")
				}
				broken, err := w.log.AuditLast(t.Context(), 1, "", audit.ChainBroken)
				if err != nil || len(broken) != 1 || !strings.HasPrefix(broken[0].Detail, "fake has row 20, ") {
					t.Errorf("%+v, %v", broken, err)
				}
				to.check(t, w.log, 46)
				hashes := map[int64]map[audit.Hash]bool{}
				for _, r := range to.got {
					if hashes[r.Seq] == nil {
						hashes[r.Seq] = map[audit.Hash]bool{}
					}
					hashes[r.Seq][r.Hash] = true
				}
				if len(hashes[15]) != 1 || len(hashes[16]) != 2 || len(hashes[20]) != 2 {
					t.Errorf("row 15 has %d hashes, rows 16 and 20 have %d and %d", len(hashes[15]), len(hashes[16]), len(hashes[20]))
				}
			})
		})
	}
}

// TestChangedBeforeExport changes a row that was not sent yet: it is sent, and logged.
func TestChangedBeforeExport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, to := newWorld(t), &fakeReceiver{}
		w.logins(5)
		if _, err := w.log.Writer().ExecContext(t.Context(), `UPDATE audit SET detail = 'x' WHERE seq = 3`); err != nil {
			t.Fatal(err)
		}
		defer w.start("a", to)()
		pass(time.Minute)
		to.check(t, w.log, 5)
		if strings.Count(w.said.String(), "audit log was cut or changed") != 1 || !strings.Contains(w.said.String(), "sequence=3") {
			t.Errorf("log:\n%s", w.said.String())
		}
	})
}

// TestPrunedBeforeExport reports the number of rows that were too old before they could be sent.
func TestPrunedBeforeExport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, to := newWorld(t), &fakeReceiver{}
		w.logins(2)
		stop := w.start("a", to)
		pass(time.Minute)
		stop()
		w.logins(5)
		pass(time.Hour)
		if _, err := w.log.PruneAudit(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		w.logins(1)
		defer w.start("a", to)()
		pass(time.Minute)
		if !strings.Contains(w.said.String(), "audit log pruned before it was exported") || !strings.Contains(w.said.String(), "count=5") {
			t.Errorf("log:\n%s", w.said.String())
		}
		if n := len(to.got); n != 4 || to.got[3].Seq != 9 {
			t.Errorf("%d rows, the last is %d", n, to.got[n-1].Seq)
		}
	})
}
