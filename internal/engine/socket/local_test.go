package socket

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	frames "github.com/ruedahq/rueda/internal/base/frame"
)

// nextFrames returns the messages of the next output of l, and whether a close frame follows.
func nextFrames(t *testing.T, l *LocalConn) (messages string, closed bool) {
	t.Helper()
	b, err := l.Next(t.Context(), time.Now().Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	for len(b) > 0 {
		first, payload, size := frames.Split(b)
		b = b[max(size, 1):]
		switch {
		case size > 0 && first == frames.Text:
			messages += string(payload) + "\n"
		case size > 0 && first == frames.Close && len(b) == 0:
			closed = true
		default:
			t.Fatalf("frame %#x of %d bytes before %d more", first, size, len(b))
		}
	}
	return messages, closed
}

func openLocal(t *testing.T, s *Server) *LocalConn {
	t.Helper()
	l, err := s.Open(testAddress)
	if err != nil {
		t.Fatal(err)
	}
	l.Send([]byte(`{"action":"auth_token","token":"ana"}`))
	if got, _ := nextFrames(t, l); !strings.Contains(got, `"type":"Success"`) {
		t.Fatalf("answer to a token: %s", got)
	}
	return l
}

func TestLocalConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, func(cfg *Config) { cfg.MaxOpen = 2 })
		l, other := openLocal(t, s), openLocal(t, s)
		if _, err := s.Open(testAddress); !errors.Is(err, ErrFull) {
			t.Errorf("above the limit: %v", err)
		}
		l.Send([]byte(`{"action":"ping","id":1}`))
		l.Send([]byte(`{"action":"subscriptions"}`))
		var got string
		for !strings.Contains(got, `"Subscriptions"`) {
			more, closed := nextFrames(t, l)
			if got += more; closed {
				t.Fatalf("closed after %s", got)
			}
		}
		if !strings.HasPrefix(got, `{"action":"pong","id":1,`) {
			t.Errorf("answers out of order: %s", got)
		}
		begin := time.Now()
		if _, err := l.Next(t.Context(), begin.Add(time.Second)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("without output: %v after %v", err, time.Since(begin))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.Next(ctx, time.Now().Add(time.Second)); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
		l.Close()
		synctest.Wait()
		if st := slotStats(s); st != (Stats{Open: 1}) {
			t.Errorf("after one has closed: %+v", st)
		}
		if _, err := l.Next(t.Context(), time.Now().Add(time.Second)); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v", err)
		}
		s.cfg.Env.Registry.RevokeUser("u-ana")
		var last string
		for closed := false; !closed; {
			got, closed = nextFrames(t, other)
			last += got
		}
		if !strings.HasSuffix(last, `"msg":"Access token revoked","retry":false}`+"\n") {
			t.Errorf("last output: %s", last)
		}
		other.Close()
		synctest.Wait()
		if st := slotStats(s); st != (Stats{}) {
			t.Errorf("after both have closed: %+v", st)
		}
	})
}

// TestLocalConnUnread checks that frames count as read only when the client asks for the next ones.
func TestLocalConnUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		for _, took := range []bool{false, true} {
			l := openLocal(t, s)
			begin := time.Now()
			if took { // the last output, but not the error
				_, err := l.Next(t.Context(), begin.Add(10*time.Second))
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatal(err)
				}
			}
			for slotStats(s).Open > 0 && time.Since(begin) < 5*time.Minute {
				time.Sleep(100 * time.Millisecond)
			}
			// A frame that is not taken for 30 s ends the session. The first one is a ping, after 20 s.
			want := 32 * time.Second // the answer to the token
			if took {
				want = 52 * time.Second
			}
			if took := time.Since(begin); took.Round(time.Second) != want {
				t.Errorf("ended after %v, want %v", took, want)
			}
			l.Close()
		}
	})
}
