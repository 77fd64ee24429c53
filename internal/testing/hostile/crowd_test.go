//go:build unix

package hostile

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// watched is the instrument of followers. It trades all day.
const watched = "FAKE|SIM|CI"

// follower is a well-behaved client: it answers pings, and expects every trade once.
type follower struct {
	token, from string

	s     *socket
	epoch string
	seen  uint64 // N of the last trade; 0: none yet
}

// followerMessage is a message that a follower reads.
type followerMessage struct {
	Type, Reason, Action, Epoch string
	Code                        int
	N                           uint64
	Lost                        json.RawMessage
}

// closedError is the end of a connection: its close code, or 0 if there was none.
type closedError int

func (o closedError) Error() string { return fmt.Sprintf("closed %d", int(o)) }

// connect connects, authenticates, and resumes after the last trade that it has seen.
func (f *follower) connect(a *attacker) error {
	s, err := a.tryOpen(f.from)
	if err != nil {
		return err
	}
	f.s = s
	if err := f.subscribe(); err != nil {
		f.close()
		return err
	}
	return nil
}

func (f *follower) close() { _ = f.s.nc.Close() }

func (f *follower) subscribe() error {
	resume := ""
	if f.seen > 0 {
		resume = fmt.Sprintf(`,"resume":{"epoch":%q,"trades":{%q:%d}}`, f.epoch, watched, f.seen)
	}
	for _, text := range []string{`{"action":"auth_token","token":"` + f.token + `"}`, `{"action":"subscribe","trades":["` + watched + `"]` + resume + `}`} {
		if err := f.s.tryFrame(fin|opText, []byte(text)); err != nil {
			return err
		}
	}
	for {
		m, err := f.next()
		switch {
		case err != nil:
			return err
		case m.Type == "Error" || m.Lost != nil:
			return fmt.Errorf("%s %d, lost %s", m.Reason, m.Code, m.Lost)
		case m.Type == "Subscription":
			f.epoch = m.Epoch
			return nil
		}
	}
}

// next returns the next message that is not a ping.
func (f *follower) next() (m followerMessage, err error) {
	for {
		_ = f.s.nc.SetDeadline(time.Now().Add(10 * time.Minute))
		op, payload, err := f.s.read()
		switch {
		case err != nil:
			return m, fmt.Errorf("%w: %w", closedError(0), err)
		case op == opClose && len(payload) >= 2:
			return m, closedError(binary.BigEndian.Uint16(payload))
		case op != opText:
			continue
		}
		m = followerMessage{}
		if err := json.Unmarshal(payload, &m); err != nil {
			return m, fmt.Errorf("%q: %w", payload, err)
		}
		if m.Action != "ping" {
			return m, nil
		}
		if err := f.s.tryFrame(fin|opText, []byte(`{"action":"pong"}`)); err != nil {
			return m, fmt.Errorf("%w: %w", closedError(0), err)
		}
	}
}

// trade reads the next trade and checks that it follows the last one.
func (f *follower) trade() error {
	for {
		m, err := f.next()
		if err != nil {
			return err
		}
		switch m.Type {
		case "T", "X", "C":
			if f.seen > 0 && m.N != f.seen+1 {
				return fmt.Errorf("trade %d after %d", m.N, f.seen)
			}
			f.seen = m.N
			return nil
		case "Error":
			if m.Code != 503 { // the close follows
				return fmt.Errorf("%d %s", m.Code, m.Reason)
			}
		}
	}
}

// follow starts a follower that reads trades until stop is closed. trades reports its errors and
// returns the number of trades.
func (a *attacker) follow(stop <-chan struct{}) (trades func() int) {
	a.Helper()
	f := &follower{token: a.token("eve"), from: a.from()}
	if err := f.connect(a); err != nil {
		a.Fatal(err)
	}
	n, done := 0, make(chan error, 1)
	go func() {
		for {
			if err := f.trade(); err != nil {
				done <- err
				return
			}
			n++
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
		}
	}()
	return func() int {
		a.Helper()
		if err := <-done; err != nil {
			a.Errorf("a well-behaved client: %v", err)
		}
		f.close()
		return n
	}
}

// concurrently runs f for 0 to n-1, many at a time.
func concurrently(many, n int, f func(i int)) {
	slots := make(chan struct{}, many)
	var all sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	all.Wait()
}

// resetPeakMemory resets the peak of resident memory of the process and returns its bytes.
func (s *server) resetPeakMemory(t testing.TB) int {
	t.Helper()
	s.figures(t) // collects garbage
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.cmd.Process.Pid), []byte("5"), 0); err != nil {
		t.Log("the peak of memory includes the start:", err)
	}
	return s.peakMemory(t)
}

// peakMemory returns the peak of resident memory in bytes; 0 if the system does not report it.
func (s *server) peakMemory(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmHWM:" {
			kib, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	return 0
}

func p99(list []time.Duration) time.Duration { return percentile(list, 99) }

func percentile(list []time.Duration, percent int) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)*percent/100]
}

// parallelUnlessFull makes a test parallel, unless it runs in full, when it measures.
func parallelUnlessFull(t *testing.T) {
	t.Helper()
	if !full() {
		t.Parallel()
	}
}
