package auditlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/store"
)

// kinds returns the kinds of the rows of a log, in order.
func kinds(t *testing.T, log Log) (list []audit.Kind) {
	t.Helper()
	for row, err := range log.AuditRows(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, row.Kind)
	}
	return list
}

// TestPrune keeps rows for two days and prunes them within the hour after, also after failures.
func TestPrune(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.NewMemory()
		var said strings.Builder
		log := &failing{Memory: s, until: time.Now().Add(90 * time.Minute)}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			Prune(ctx, log, 48*time.Hour, slog.New(slog.NewTextHandler(&said, nil)))
			close(ended)
		}()
		for range 60 {
			if err := s.Append(t.Context(), audit.Event{Time: time.Now(), Kind: audit.Login}); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Hour)
		}
		synctest.Wait()
		list := kinds(t, s)
		logins := len(list) - strings.Count(fmt.Sprint(list), string(audit.Pruned))
		if logins < 48 || logins > 50 {
			t.Errorf("%d rows are kept of one an hour in two days", logins)
		}
		if _, err := Verify(t.Context(), s, audit.Head{}, func(int64) {}); err != nil {
			t.Error(err)
		}
		if n := strings.Count(said.String(), "audit log not pruned"); n != 2 {
			t.Errorf("%d failures logged, want 2:\n%s", n, said.String())
		}
		cancel()
		<-ended
	})
}

// failing is a database that is down for a while.
type failing struct {
	*store.Memory
	until time.Time
}

func (f *failing) PruneAudit(ctx context.Context, before time.Time) (int64, error) {
	if time.Now().Before(f.until) {
		return 0, errors.New("down")
	}
	return f.Memory.PruneAudit(ctx, before)
}

// TestVerifyNoted checks that a noted head detects what the chain alone cannot: rows that are
// missing at the end.
func TestVerifyNoted(t *testing.T) {
	s := store.NewMemory()
	s.UseChain(audit.NewChain([]byte("a key of the tests")))
	heads := []audit.Head{{}}
	read := func() (report Report, err error) {
		rows := int64(0)
		report, err = Verify(t.Context(), s, audit.Head{}, func(n int64) { rows = n })
		if err != nil || rows != report.Rows {
			t.Errorf("%+v, %v after %d rows", report, err, rows)
		}
		return report, err
	}
	began := time.Now().Add(-time.Hour)
	for i := range 10 {
		if err := s.Append(t.Context(), audit.Event{Time: began.Add(time.Duration(i) * time.Second), Kind: audit.Login}); err != nil {
			t.Fatal(err)
		}
		report, _ := read()
		if report.Rows != int64(i)+1 || !report.From.Equal(began) || !report.To.Equal(began.Add(time.Duration(i)*time.Second)) {
			t.Errorf("%+v", report)
		}
		heads = append(heads, report.Head)
	}
	wants := func(noted audit.Head, broken bool, find string) {
		t.Helper()
		_, err := Verify(t.Context(), s, noted, func(int64) {})
		if fmt.Sprint(err) != "<nil>" != (find != "") || errors.Is(err, audit.ErrBroken) != broken || !strings.Contains(fmt.Sprint(err), find) {
			t.Errorf("row %d: %v; want %q", noted.Seq, err, find)
		}
	}
	for _, h := range heads {
		wants(h, false, "")
	}
	wants(audit.Head{Seq: 11, Hash: heads[10].Hash}, true, "rows were removed from its end")
	wants(audit.Head{Seq: 5, Hash: heads[6].Hash}, true, "row 5 differs from the noted one")
	if _, err := s.PruneAudit(t.Context(), began.Add(4*time.Second)); err != nil {
		t.Fatal(err)
	}
	wants(heads[4], false, "")
	wants(audit.Head{Seq: 4, Hash: heads[5].Hash}, false, "row 4 was pruned")
	wants(heads[3], false, "row 3 was pruned, like all rows up to 4")
	wants(heads[7], false, "")
	if report, _ := read(); report.Rows != 7 || report.Start != heads[4] {
		t.Errorf("%+v", report)
	}
}

// TestVerifyWhilePruned checks that rows that are pruned during the check are not missing.
func TestVerifyWhilePruned(t *testing.T) {
	s := store.NewMemory()
	began := time.Now().Add(-time.Hour)
	for i := range 10 {
		if err := s.Append(t.Context(), audit.Event{Time: began.Add(time.Duration(i) * time.Second), Kind: audit.Login}); err != nil {
			t.Fatal(err)
		}
	}
	pruned := &prunedMeanwhile{Memory: s, before: began.Add(5 * time.Second)}
	if report, err := Verify(t.Context(), pruned, audit.Head{}, func(int64) {}); err != nil || report.Start.Seq != 5 || report.Rows != 6 {
		t.Errorf("%+v, %v", report, err)
	}
}

// prunedMeanwhile prunes its log between the reads of its start and of its rows.
type prunedMeanwhile struct {
	*store.Memory
	before time.Time
}

func (p *prunedMeanwhile) AuditStart(ctx context.Context) (audit.Head, error) {
	head, err := p.Memory.AuditStart(ctx)
	if err == nil {
		_, err = p.PruneAudit(ctx, p.before)
	}
	return head, err
}
