package auth_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/auth"
	"github.com/ruedahq/rueda/internal/store"
)

// killDir names the directory in which a process that will be killed works.
const killDir = "RUEDA_TEST_KILL_DIR"

// chains is how many clients refresh at once in the process that is killed.
const chains = 4

// TestKill kills a process that refreshes, with SIGKILL at random moments, and then
// demands every answer that it gave: what was answered is on the disk, and what
// was on the disk but not answered is answered the same when asked again.
func TestKill(t *testing.T) {
	if dir := os.Getenv(killDir); dir != "" {
		victim(t, dir)
		return
	}
	dir := t.TempDir()
	answers, lost := 0, 0
	for range soak(100) {
		said := runVictim(t, dir, 1+rand.IntN(60))
		answers += said.answers
		w, db := openKilled(t, dir)
		for chain, last := range said.last {
			first := w.refresh(auth.NewSecret(last))
			again := w.refresh(auth.NewSecret(last))
			if first.Refresh.Reveal() != again.Refresh.Reveal() {
				t.Fatalf("chain %s: the retry gives another successor", chain)
			}
			successor, _, err := db.Lookup(t.Context(), hashOf(t, first.Refresh))
			if err != nil {
				t.Fatal(err)
			}
			if successor.Issued.Before(said.ended) {
				lost++ // it was committed before the kill, and its answer was lost
			}
			var children int
			parent := successor.Parent
			if err := db.Reader().QueryRowContext(t.Context(), "SELECT count(*) FROM refresh_tokens WHERE parent = ?", parent[:]).Scan(&children); err != nil {
				t.Fatal(err)
			}
			if children != 1 || parent != hashOf(t, auth.NewSecret(last)) {
				t.Fatalf("chain %s: the token has %d successors", chain, children)
			}
			w.refresh(again.Refresh)
		}
	}
	t.Logf("figure: kill -9: %d answers before kills, %d of the refreshes cut off had been committed", answers, lost)
}

// said is what a killed process had said.
type said struct {
	last    map[string]string // the newest token that each chain was answered
	answers int
	ended   time.Time
}

// runVictim runs a process until it has said so many lines and a little more, and kills it.
func runVictim(t *testing.T, dir string, lines int) said {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKill$")
	cmd.Env = append(os.Environ(), killDir+"="+dir)
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
		if err != nil { // what has no line end was cut off, as the answer to a client would be
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
	s.ended = time.Now()
	if len(s.last) == 0 {
		t.Fatal("the process said nothing")
	}
	return s
}

func openKilled(t *testing.T, dir string) (*world, *store.SQLite) {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(dir, "rueda.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	keys, err := openFile(t, filepath.Join(dir, "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	return newWorld(t, func(c *auth.Config) { c.Store, c.Keys = db, keys }), db
}

func hashOf(t *testing.T, token auth.Secret) auth.Hash {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token.Reveal(), "rt1_"))
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(raw[:32])
}

// victim logs in and refreshes until it is killed. It says what it was answered,
// as a server's bytes to a client would.
func victim(t *testing.T, dir string) {
	w, _ := openKilled(t, dir)
	var mu sync.Mutex
	say := func(chain int, token auth.Secret) {
		mu.Lock()
		defer mu.Unlock()
		if _, err := fmt.Fprintln(os.Stdout, chain, token.Reveal()); err != nil {
			os.Exit(1) // the parent has gone
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
