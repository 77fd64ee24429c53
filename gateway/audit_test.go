package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/audit"
	"github.com/ruedahq/rueda/internal/certificate/certtest"
	"github.com/ruedahq/rueda/internal/store"
)

// kinds are those of a log's rows, in order.
func kinds(t *testing.T, log AuditLog) (list []audit.Kind) {
	t.Helper()
	for row, err := range log.AuditRows(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, row.Kind)
	}
	return list
}

// TestAuditRetention: rows are kept for their days, and pruned within the hour after, whatever fails meanwhile.
func TestAuditRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.NewMemory()
		var said strings.Builder
		trail := newTrail(&failing{keeper: s, until: time.Now().Add(90 * time.Minute)}, Audit{Days: 2}, slog.New(slog.NewTextHandler(&said, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- trail.run(ctx) }()
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
		if _, err := VerifyAudit(t.Context(), s, audit.Head{}, func(int64) {}); err != nil {
			t.Error(err)
		}
		if n := strings.Count(said.String(), "audit log not pruned"); n != 2 {
			t.Errorf("%d failures told, want 2:\n%s", n, said.String())
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// failing is a database that is away for a while.
type failing struct {
	keeper
	until time.Time
}

func (f *failing) PruneAudit(ctx context.Context, before time.Time) (int64, error) {
	if time.Now().Before(f.until) {
		return 0, errors.New("away")
	}
	return f.keeper.PruneAudit(ctx, before)
}

// TestVerifyAuditNoted: a head that was noted shows what the chain alone cannot, rows taken off the end.
func TestVerifyAuditNoted(t *testing.T) {
	s := store.NewMemory()
	s.UseChain(audit.NewChain([]byte("a key of the tests")))
	heads := []audit.Head{{}}
	read := func() (report AuditReport, err error) {
		rows := int64(0)
		report, err = VerifyAudit(t.Context(), s, audit.Head{}, func(n int64) { rows = n })
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
		_, err := VerifyAudit(t.Context(), s, noted, func(int64) {})
		if fmt.Sprint(err) != "<nil>" != (find != "") || errors.Is(err, audit.ErrBroken) != broken || !strings.Contains(fmt.Sprint(err), find) {
			t.Errorf("row %d: %v; want %q", noted.Seq, err, find)
		}
	}
	for _, h := range heads {
		wants(h, false, "")
	}
	wants(audit.Head{Seq: 11, Hash: heads[10].Hash}, true, "rows were taken off its end")
	wants(audit.Head{Seq: 5, Hash: heads[6].Hash}, true, "row 5 is another than was noted")
	if _, err := s.PruneAudit(t.Context(), began.Add(4*time.Second)); err != nil {
		t.Fatal(err)
	}
	wants(heads[4], false, "")
	wants(audit.Head{Seq: 4, Hash: heads[5].Hash}, false, "row 4 was pruned")
	wants(heads[3], false, "row 3 was pruned with all up to row 4")
	wants(heads[7], false, "")
	if report, _ := read(); report.Rows != 7 || report.Start != heads[4] {
		t.Errorf("%+v", report)
	}
}

// TestVerifyAuditWhilePruned: rows that are pruned while the log is read are not missing.
func TestVerifyAuditWhilePruned(t *testing.T) {
	s := store.NewMemory()
	began := time.Now().Add(-time.Hour)
	for i := range 10 {
		if err := s.Append(t.Context(), audit.Event{Time: began.Add(time.Duration(i) * time.Second), Kind: audit.Login}); err != nil {
			t.Fatal(err)
		}
	}
	pruned := &prunedMeanwhile{Memory: s, before: began.Add(5 * time.Second)}
	if report, err := VerifyAudit(t.Context(), pruned, audit.Head{}, func(int64) {}); err != nil || report.Start.Seq != 5 || report.Rows != 6 {
		t.Errorf("%+v, %v", report, err)
	}
}

// prunedMeanwhile prunes its log between where it begins and its rows are read, once.
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

// TestAuditOfAGateway: it tells that it began, and with which certificate.
func TestAuditOfAGateway(t *testing.T) {
	data, err := OpenData(t.Context(), DataConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	told := make(chan audit.Event, 100)
	data.store = telling{data.store, told}
	g, err := New(Config{Data: data, Listen: "127.0.0.1:0", TLS: TLS(certtest.Write(t, t.TempDir(), "a.example")), Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- g.Run(ctx) }()
	if e := <-told; e.Kind != audit.Started || e.Detail != "v1" || e.Actor != "gateway" {
		t.Errorf("first %+v", e)
	}
	if e := <-told; e.Kind != audit.Certificate || !strings.HasPrefix(e.Detail, "valid until 2") {
		t.Errorf("then %+v", e)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// telling is a database that tells the test what was appended.
type telling struct {
	database
	told chan audit.Event
}

func (d telling) Append(ctx context.Context, events ...audit.Event) error {
	err := d.database.Append(ctx, events...)
	for _, e := range events {
		if err == nil && (e.Kind == audit.Started || e.Kind == audit.Certificate) {
			d.told <- e
		}
	}
	return err
}
