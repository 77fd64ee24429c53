package gateway

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed/ndjson"
	"github.com/ruedahq/rueda/internal/base/audit"
)

// TestThreat40GuessesAreRecorded guesses the token of a feed. The guesses of an address are one row
// of the audit log, and a producer with the token gets in.
func TestThreat40GuessesAreRecorded(t *testing.T) {
	t.Parallel()
	data, err := OpenData(t.Context(), DataConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	token, at := strings.Repeat("t", ndjson.MinToken), make(chan net.Addr, 1)
	source, err := ndjson.New(ndjson.Config{Listen: "127.0.0.1:0", Token: token, OnListen: func(a net.Addr) { at <- a }})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	g, err := New(t.Context(), Config{
		Data: data, Listen: "127.0.0.1:0", Drain: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Feeds: []Feed{{Name: "exchange", Source: source}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- g.Run(ctx) }()
	address := (<-at).String()
	hello := func(token string) string {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "{\"type\":\"Hello\",\"token\":%q}\nx\n", token); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	for i := range 20 {
		if got := hello(strings.Repeat("g", ndjson.MinToken+i)); !strings.Contains(got, `"invalid_token"`) {
			t.Errorf("a guess: %s", got)
		}
	}
	if got := hello(token); !strings.Contains(got, `"line":2`) {
		t.Errorf("the token: %s", got)
	}
	rows, err := data.db.Store.AuditLast(t.Context(), 100, "", audit.FeedRefused)
	if err != nil || len(rows) != 1 || rows[0].Actor != "producer" || rows[0].Address != "127.0.0.1" || rows[0].Detail != "exchange" {
		t.Errorf("%+v, %v", rows, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
