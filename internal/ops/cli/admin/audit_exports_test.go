package admin

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auditlog"
	"github.com/ruedahq/rueda/internal/identity/database"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/cli/output"
)

// TestAuditExports checks what is printed about a receiver, and that a row that it has must be in
// the log.
func TestAuditExports(t *testing.T) {
	t.Parallel()
	db, err := database.Open(t.Context(), database.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	events := make([]audit.Event, 9)
	for i := range events {
		events[i] = audit.Event{Time: time.Now(), Kind: audit.Login}
	}
	if err := db.Store.Append(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	head, err := auditlog.Newest(t.Context(), db.Store)
	if err != nil {
		t.Fatal(err)
	}
	printed := func(want ...string) {
		t.Helper()
		var out, errs strings.Builder
		var o auditOptions
		o.place.out.Piped = output.Tabs
		if err := o.exports(t.Context(), command.Streams{Out: &out, Err: &errs}, db); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(out.String()+errs.String(), "\n")
		if got := strings.Fields(lines[max(0, len(lines)-2)]); strings.Join(got[:min(len(got), len(want))], " ") != strings.Join(want, " ") {
			t.Errorf("printed %q, want %q", lines, want)
		}
	}
	printed("The", "log", "was", "never", "sent")
	if _, ok, err := db.Store.ClaimExport(t.Context(), "syslog", "gw-1:7", time.Hour); !ok || err != nil {
		t.Fatal(ok, err)
	}
	printed("syslog", "0", "9", "never", "gw-1:7")
	for _, tc := range []struct {
		sent   audit.Head
		broken bool
	}{
		{head, false}, {audit.Head{Seq: head.Seq + 1, Hash: head.Hash}, true}, {audit.Head{Seq: head.Seq - 1, Hash: head.Hash}, true}, {audit.Head{}, false},
	} {
		if held, err := db.Store.MoveExport(t.Context(), "syslog", "gw-1:7", tc.sent, time.Hour); !held || err != nil {
			t.Fatal(held, err)
		}
		if err := checkExports(t.Context(), db.Store, head); errors.Is(err, audit.ErrBroken) != tc.broken || !tc.broken && err != nil {
			t.Errorf("row %d: %v", tc.sent.Seq, err)
		}
	}
	if _, _, err := db.Store.ClaimExport(t.Context(), "syslog", "gw-1:7", 0); err != nil {
		t.Fatal(err)
	}
	printed("syslog", "0", "9")
}
