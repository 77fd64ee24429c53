package rest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/market"
)

// TestStalledJournal has a write of the journal take 5 s. Until it ends no client receives the rows
// of that write. Logins, routes and streams of other instruments work at once.
func TestStalledJournal(t *testing.T) {
	var stalled atomic.Bool
	write := func(f *os.File, b []byte) (int, error) {
		if stalled.Swap(false) {
			time.Sleep(5 * time.Second) // of the bubble's clock
		}
		return f.Write(b)
	}
	withSlowJournal(t, write, func(s *streaming) {
		const hot, quiet = "HOT|BYMA|CI", "QUIET|BYMA|CI"
		for _, name := range []string{hot, quiet} {
			id, err := market.ParseInstrumentID(name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.hub.Define(market.Instrument{ID: id, Kind: "equity", StartsEmpty: true}); err != nil {
				t.Fatal(err)
			}
		}
		access, _ := s.login(t, "historian")
		query := func(name string) string { return strings.ReplaceAll(name, "|", "%7C") }
		e := s.follow(access, "trades="+query(hot)+"&snapshot=false")
		e.message(`"type":"Subscription"`)
		s.trade(t, hot, 7)
		s.trade(t, quiet, 7)
		e.message(`"type":"T"`, `"N":1,`)
		time.Sleep(2 * time.Second) // until all of it is committed, bars of a second too
		synctest.Wait()
		begin := time.Now()
		stalled.Store(true)
		s.trade(t, hot, 8)
		synctest.Wait()
		if stalled.Load() {
			t.Fatal("nothing is written")
		}
		ask := func(path string, status int, after time.Duration) {
			t.Helper()
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Header.Set("Authorization", "Bearer "+access)
			w, asked := httptest.NewRecorder(), time.Now()
			s.handler.ServeHTTP(w, r)
			if w.Code != status || time.Since(asked) != after {
				t.Errorf("%s: status %d after %v: %s", path, w.Code, time.Since(asked), w.Body)
			}
			if status == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
				t.Errorf("%s: no Retry-After", path)
			}
		}
		ask("/market/instruments", http.StatusOK, 0)
		ask("/market/status", http.StatusOK, 0)
		ask("/market/snapshot?instruments="+query(quiet), http.StatusOK, 0)
		ask("/market/book?instrument="+query(quiet), http.StatusOK, 0)
		s.login(t, "historian")
		other := s.follow(access, "trades="+query(quiet)+"&bars="+query(quiet)+"&interval=1d&snapshot=false")
		other.message(`"type":"Subscription"`)
		if took := time.Since(begin); took != 0 {
			t.Errorf("what does not tell of new rows took %v", took)
		}
		s.trade(t, hot, 9) // the feed is not held back
		ask("/market/snapshot?instruments="+query(hot), http.StatusServiceUnavailable, 2*time.Second)
		for n := 2; n <= 3; n++ {
			e.message(`"type":"T"`, fmt.Sprintf(`"N":%d,`, n))
			if took := time.Since(begin); took != 5*time.Second {
				t.Errorf("trade %d came after %v", n, took)
			}
		}
		ask("/market/snapshot?instruments="+query(hot), http.StatusOK, 0)
	})
}
