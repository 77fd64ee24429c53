package rest_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestDelayedHeadIsHidden resumes delayed data at numbers and positions up to, at and beyond what
// exists in real time. All answers are the same except for the number of the client itself. None
// shows the position of real time, and all streams go on when the delay has passed.
func TestDelayedHeadIsHidden(t *testing.T) {
	t.Parallel()
	rights := tableRights()[9:10]
	if rights[0].name != "all, delayed" {
		t.Fatal(rights[0].name)
	}
	synctest.Test(t, func(t *testing.T) {
		w, stop := newRightsWorld(t, rights)
		defer stop()
		u := &tableUser{right: &rights[0]}
		u.access, _ = w.login(t, "user0")
		epoch, live := w.hub.Position()
		var at uint64
		if _, err := fmt.Sscanf(strings.TrimPrefix(live, epoch+":"), "%d", &at); err != nil {
			t.Fatal(err)
		}
		// The newest trade is 3. The delayed data has come to 2.
		streams := map[uint64]*received{}
		for _, n := range []uint64{3, 4, 5, 1000, 1 << 50} {
			streams[n] = w.dial(u, fmt.Sprintf(`{"action":"subscribe","trades":["A|M|CI"],"resume":{"epoch":%q,"trades":{"A|M|CI":%d}}}`, epoch, n))
		}
		positions := map[uint64]*received{}
		for _, pos := range []uint64{at - 1, at, at + 1, at + 1000, 1 << 50} {
			positions[pos] = w.dial(u, fmt.Sprintf(`{"action":"subscribe","trades":["A|M|CI"],"status":["A|M|CI"],"resume":{"epoch":%q,"position":"%s:%d"}}`, epoch, epoch, pos))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		same := func(list map[uint64]*received) {
			t.Helper()
			first := ""
			for n, got := range list {
				lines := strings.Split(got.String(), "\n")[1:] // after Success
				text := regexp.MustCompile(fmt.Sprintf(`([|:A-Za-z"]):?%d([}"])`, n)).ReplaceAllString(strings.Join(lines, "\n"), "${1}n$2")
				if first == "" {
					first = text
				}
				if text != first || strings.Contains(text, "ahead") || strings.Contains(text, live+`"`) {
					t.Errorf("resumed at %d: %s\nanother: %s", n, text, first)
				}
			}
		}
		same(streams)
		same(positions)
		w.publish(4)
		time.Sleep(2 * tableDelay)
		w.publish(4)
		time.Sleep(tableDelay + time.Minute)
		synctest.Wait()
		last := regexp.MustCompile(`"type":"T"[^}]*"I":"A\|M\|CI"[^}]*"N":5`)
		for _, list := range []map[uint64]*received{streams, positions} {
			for n, got := range list {
				if n < 1<<50 && !last.MatchString(got.String()) {
					t.Errorf("the stream resumed at %d does not go on: %s", n, got)
				}
			}
		}
	})
}
