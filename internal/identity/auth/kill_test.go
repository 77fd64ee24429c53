package auth_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/store"
)

// Environment variables for a process that will be killed.
const (
	killDir   = "RUEDA_TEST_KILL_DIR"   // folder of its keys
	killStore = "RUEDA_TEST_KILL_STORE" // one of the killStores
	killPlace = "RUEDA_TEST_KILL_PLACE" // what that store opens
)

// chains is the number of parallel clients in the process that is killed.
const chains = 8

// durable is a store that outlives its process.
type durable interface {
	auth.Store
	AuditRows(ctx context.Context, after int64) iter.Seq2[audit.Row, error]
	Reader() *sql.DB
	Close() error
}

// killed is a kind of store that must not lose data.
type killed struct {
	name     string
	place    func(t *testing.T, dir string) string
	open     func(ctx context.Context, place string) (durable, error)
	children string // query for the number of tokens with a parent
}

// killStores has all kinds.
var killStores = []killed{
	{
		"sqlite",
		func(_ *testing.T, dir string) string { return filepath.Join(dir, "rueda.db") },
		func(ctx context.Context, place string) (durable, error) { return store.Open(ctx, place) },
		"SELECT count(*) FROM refresh_tokens WHERE parent = ?",
	},
	{
		"postgres",
		func(t *testing.T, _ string) string { return cluster.Database(t) },
		openPostgres,
		"SELECT count(*) FROM refresh_tokens WHERE parent = $1",
	},
}

// TestThreat32KillE2E kills a process that refreshes, with SIGKILL at random moments. Every answer
// must be on the disk. A refresh that is on the disk but was not answered can be repeated.
func TestThreat32KillE2E(t *testing.T) {
	if os.Getenv(killDir) != "" {
		refreshUntilKilled(t)
		return
	}
	for _, s := range killStores {
		t.Run(s.name, func(t *testing.T) { testKill(t, s) })
	}
}

func testKill(t *testing.T, s killed) {
	dir := t.TempDir()
	place := s.place(t, dir)
	answers, cut, lost := 0, 0, 0
	for range soak(1200 / chains) { // each kill interrupts at most one refresh of each chain
		said := runUntilKilled(t, 1+rand.IntN(60), killDir+"="+dir, killStore+"="+s.name, killPlace+"="+place)
		answers += said.answers
		w, db := openKilled(t, dir, s.name, place)
		for chain, last := range said.last {
			cut++
			token := auth.NewSecret(last)
			row, _, err := db.Lookup(t.Context(), hashOf(t, token))
			if err != nil && !errors.Is(err, auth.ErrNotFound) {
				t.Fatal(err)
			}
			if row.Kept.After(row.Expires) {
				lost++ // its refresh was committed before the kill, and the answer was lost
			}
			w.refresh(token)
			w.refresh(w.refresh(token).Refresh)
			var children int
			parent := hashOf(t, token)
			if err := db.Reader().QueryRowContext(t.Context(), s.children, parent[:]).Scan(&children); err != nil {
				t.Fatal(err)
			}
			if children != 1 {
				t.Fatalf("chain %s: %d successors of the token were used", chain, children)
			}
		}
		if head, err := (audit.Chain{}).Verify(audit.Head{}, db.AuditRows(t.Context(), 0)); err != nil || head.Seq < int64(answers) {
			t.Fatalf("the audit log ends with row %d: %v", head.Seq, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("figure: kill -9, %s: %d answers before kills, none lost; %d refreshes cut off, of which %d had been committed, all repeatable",
		s.name, answers, cut, lost)
}

// said has the answers of a killed process.
type said struct {
	last    map[string]string // newest answered token of each chain
	answers int
}

// runUntilKilled runs a process until it has printed the given number of lines and a little more,
// and kills it.
func runUntilKilled(t *testing.T, lines int, env ...string) said {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestThreat32KillE2E$")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := said{last: make(map[string]string)}
	in := bufio.NewReader(out)
	for n := 0; ; n++ {
		line, err := in.ReadString('\n')
		if err != nil { // a line without an end was cut off, like an answer to a client
			break
		}
		chain, token, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			t.Fatalf("the process said: %s", line)
		}
		s.last[chain] = token
		s.answers++
		if n == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // it was killed, and says so
	if len(s.last) == 0 {
		t.Fatal("the process said nothing")
	}
	return s
}

func openKilled(t *testing.T, dir, name, place string) (*world, durable) {
	t.Helper()
	i := slices.IndexFunc(killStores, func(s killed) bool { return s.name == name })
	db, err := killStores[i].open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := openFile(t, filepath.Join(dir, "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	return newWorld(t, func(c *auth.Config) { c.Store, c.Keys = db, keys }), db
}

func hashOf(t *testing.T, token auth.Secret) auth.Hash {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(token.Reveal()[len("rt1_"):])
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(raw[:len(raw)-4]) // without the checksum
}

// refreshUntilKilled logs in and refreshes until it is killed. It prints each answer, as a server
// would send it to a client.
func refreshUntilKilled(t *testing.T) {
	w, db := openKilled(t, os.Getenv(killDir), os.Getenv(killStore), os.Getenv(killPlace))
	defer db.Close()
	var mu sync.Mutex
	say := func(chain int, token auth.Secret) {
		mu.Lock()
		defer mu.Unlock()
		if _, err := fmt.Fprintln(os.Stdout, chain, token.Reveal()); err != nil {
			os.Exit(1) // the parent process has ended
		}
	}
	var wg sync.WaitGroup
	for chain := range chains {
		wg.Go(func() {
			tokens := w.login("maria")
			for {
				say(chain, tokens.Refresh)
				parent := tokens.Refresh
				w.refresh(parent) // this answer is lost, so that most kills fall between commit and answer
				tokens = w.refresh(parent)
			}
		})
	}
	wg.Wait()
}
