package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
)

// TestFollower stops a client that has received more messages than it can hold, and one whose stream
// has ended before.
func TestFollower(t *testing.T) {
	for _, c := range []struct {
		name     string
		messages int
		ends     bool
	}{
		{"many messages", 20_000, false},
		{"a stream that ends", 5, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = fmt.Fprint(w, "data: \"Subscription\"\n\n", strings.Repeat("data: 1\n\n", c.messages))
				_ = http.NewResponseController(w).Flush()
				if !c.ends {
					<-r.Context().Done()
				}
			}))
			defer server.Close()
			s := &stream{installation: &installation{listen: server.Listener.Addr().String()}}
			f, err := s.follow(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for !c.ends && len(f.messages) < cap(f.messages) {
				runtime.Gosched()
			}
			if c.ends {
				if _, err := f.until("2"); err == nil || !strings.Contains(err.Error(), "EOF") {
					t.Errorf("wait for a message after the end: %v", err)
				}
			}
			if err := f.stop(); (err != nil) != c.ends {
				t.Errorf("stop: %v", err)
			}
		})
	}
}
