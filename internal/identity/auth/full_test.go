//go:build linux

package auth_test

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/store"
)

// TestThreat33FullDisk fills the disk under load, by a limit for the size of files. Logins and
// refreshes answer Unavailable, and tokens still verify. When there is space again, everything
// works, and no answered refresh is lost.
func TestThreat33FullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rueda.db")
	db, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	w := newWorld(t, func(c *auth.Config) { c.Store = db })
	clients := make([]auth.Tokens, 16)
	for i := range clients {
		clients[i] = w.login("maria")
	}
	for round := range 3 {
		answered := w.fill(t, path, clients)
		for _, tokens := range clients {
			w.verify(tokens.Access)
			if found, err := w.Introspect(t.Context(), tokens.Refresh); err != nil || !found.Active {
				t.Errorf("a refresh token on a full disk: %+v, %v", found, err)
			}
		}
		for i := range clients {
			clients[i] = w.refresh(clients[i].Refresh)
		}
		w.login("otto")
		head, err := audit.Chain{}.Verify(audit.Head{}, db.AuditRows(t.Context(), 0))
		if err != nil {
			t.Error(err)
		}
		t.Logf("round %d: full after %d answers; the audit log has %d rows", round, answered, head.Seq)
	}
}

// fill refreshes all clients until the disk is full for each.
func (w *world) fill(t *testing.T, path string, clients []auth.Tokens) int64 {
	t.Helper()
	free := fileLimit(t, path, 64<<10)
	defer free()
	var answered atomic.Int64
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for range 100_000 {
				tokens, err := w.Refresh(t.Context(), clients[i].Refresh, origin)
				if err != nil {
					wantReason(t, err, auth.Unavailable)
					return
				}
				answered.Add(1)
				clients[i] = tokens
			}
			t.Error("the disk never was full")
		})
	}
	all.Wait()
	for range 1000 { // a smaller transaction may have fitted
		if _, err := w.Password(t.Context(), "otto", "otto's password", "", origin); err != nil {
			wantReason(t, err, auth.Unavailable)
			return answered.Load()
		}
	}
	t.Error("the disk never was full for a login")
	return answered.Load()
}

// fileLimit limits the size of this process's files to a little more than the current size of the
// database's log.
func fileLimit(t *testing.T, path string, more int64) (free func()) {
	t.Helper()
	var most int64
	for _, name := range []string{path, path + "-wal"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, info.Size())
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	full := syscall.Rlimit{Cur: uint64(most + more), Max: before.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Fatal(err)
		}
	}
}
