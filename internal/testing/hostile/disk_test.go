//go:build unix

package hostile

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// setDiskLimit sets the limit of the size of files of this process: none, or a small one.
func setDiskLimit(more bool) error {
	var size syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &size); err != nil {
		return fmt.Errorf("read the limit of files: %w", err)
	}
	size.Cur = size.Max
	if !more {
		size.Cur = 4096
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &size); err != nil {
		return fmt.Errorf("set the limit of files: %w", err)
	}
	return nil
}

// TestThreat33FullDiskE2E fills the disk of a gateway with a journal. Logins and refreshes answer
// 503 with Retry-After, connected clients get every trade, tokens stay valid, and the log reports
// it. When there is space again, the gateway recovers by itself.
func TestThreat33FullDiskE2E(t *testing.T) {
	parallelUnlessFull(t)
	a := &attacker{T: t, server: start(t, settings{}), network: 26, next: new(atomic.Int32)}
	f := &follower{token: a.token("ana"), from: a.from()}
	if err := f.connect(a); err != nil {
		t.Fatal(err)
	}
	trades := func() {
		t.Helper()
		for range 5 {
			if err := f.trade(); err != nil {
				t.Fatal(err)
			}
		}
	}
	trades()
	mine := a.login("eve")
	password := func(text string) *reply {
		return a.post(`{"grant_type":"password","username":"eve","password":"` + text + `"}`)
	}
	a.ask(t, "full")
	a.eventually("logins are refused", func() bool { return password(passwordOf("eve")).status == http.StatusServiceUnavailable })
	for range 40 { // more failures than an address or an account may have
		for what, r := range map[string]*reply{"refresh": a.refresh(mine.refresh), "login": password(passwordOf("eve")), "wrong password": password("wrong")} {
			a.want(what, r, http.StatusServiceUnavailable, "unavailable")
			if r.header.Get("Retry-After") == "" {
				t.Errorf("%s: no Retry-After", what)
			}
		}
	}
	a.want("a token", a.get(mine.access), http.StatusOK, "")
	trades()
	other := &follower{token: mine.access, from: a.from()}
	if err := other.connect(a); err != nil {
		t.Errorf("a new connection: %v", err)
	} else {
		other.close()
	}
	for _, line := range []string{"the journal is suspended", "login not stored"} {
		if !strings.Contains(a.log.String(), line) {
			t.Errorf("the log does not have %q", line)
		}
	}
	a.ask(t, "space")
	a.eventually("logins are accepted", func() bool { return password(passwordOf("eve")).status == http.StatusOK })
	a.want("refresh", a.refresh(mine.refresh), http.StatusOK, "")
	trades()
	f.close()
}
