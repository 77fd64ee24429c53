package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/market"
)

// fill runs a gateway until its journal has five minutes of three instruments.
func fill(t *testing.T, cfg gateway.Config) {
	t.Helper()
	exchange, err := sim.New(sim.Config{Seed: 1, Clock: sim.Virtual, Speed: -1, Instruments: 3, Duration: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("fill", func(t *testing.T) {
		source := ending{exchange, make(chan struct{})}
		cfg.Feeds = []gateway.Feed{{Name: "sim", Source: source}}
		run(t, cfg)
		<-source.ended
	})
}

// TestInterruptedStart ends New in each of its steps. The folder of the journal is free then, and
// the next start continues its epoch.
func TestInterruptedStart(t *testing.T) {
	t.Parallel()
	cfg := gateway.Config{Listen: "127.0.0.1:0", Journal: gateway.Journal{Folder: t.TempDir()}}
	fill(t, cfg)
	var log bytes.Buffer
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	for _, at := range []gateway.StartStep{gateway.ReadsJournal, gateway.RestoresInstruments} {
		ctx, interrupt := context.WithCancel(t.Context())
		interrupted := cfg
		interrupted.OnStart = func(step gateway.StartStep, _, _ int64) {
			if step == at {
				interrupt()
			}
		}
		g, err := gateway.New(ctx, interrupted)
		if !errors.Is(err, context.Canceled) || g != nil {
			t.Errorf("interrupted while %s: %v", at, err)
		}
		interrupt()
	}
	t.Run("again", func(t *testing.T) { run(t, cfg) })
	if strings.Contains(log.String(), "new epoch") {
		t.Errorf("an interrupted start ended the epoch: %s", &log)
	}
}

// TestAnswerStarting checks what the address of a gateway answers before New has returned, that Run
// gets the address afterwards, also while a client has a connection, and that New reports its
// progress.
func TestAnswerStarting(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cfg := gateway.Config{Listen: address, Journal: gateway.Journal{Folder: t.TempDir()}}
	fill(t, cfg)

	stop, err := gateway.AnswerStarting(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gateway.AnswerStarting(t.Context(), cfg); err == nil {
		t.Error("an address that is in use is no error")
	}
	checkStarting(t, address)

	steps := map[gateway.StartStep][2]int64{} // the newest of each
	cfg.OnStart = func(step gateway.StartStep, done, total int64) {
		if before := steps[step]; done < before[0] || done > total {
			t.Errorf("%s: %d of %d after %d", step, done, total, before[0])
		}
		steps[step] = [2]int64{done, total}
	}
	cfg.OnJournal = func(func([]market.InstrumentID) (time.Time, error)) error {
		stop()
		return nil
	}
	client, bound := run(t, cfg)
	if bound.Address != address {
		t.Errorf("the gateway listens on %s", bound.Address)
	}
	answer, err := client.Get(bound.REST + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	if answer.Body.Close(); answer.StatusCode != http.StatusOK {
		t.Errorf("GET /readyz: %d", answer.StatusCode)
	}
	if read := steps[gateway.ReadsJournal]; read[1] == 0 || read[0] != read[1] {
		t.Errorf("bytes of the journal: %v", read)
	}
	if restored := steps[gateway.RestoresInstruments]; restored[1] < 3 {
		t.Errorf("instruments: %v", restored)
	}
}

// checkStarting checks the answers during a start, and leaves a connection open.
func checkStarting(t *testing.T, address string) {
	t.Helper()
	idle, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { idle.Close() })
	requests := bufio.NewReader(idle)
	for request, want := range map[string]struct {
		status int
		body   string
	}{
		"GET /livez":       {200, `"status":"live"`},
		"GET /readyz":      {503, "Not ready: starting"},
		"POST /auth/token": {503, "Not ready: starting"},
		"POST /livez":      {503, "Not ready: starting"},
		"GET /stream":      {503, "Not ready: starting"},
	} {
		fmt.Fprintf(idle, "%s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n\r\n", request, address)
		answer, err := http.ReadResponse(requests, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != want.status || !strings.Contains(string(body), want.body) {
			t.Errorf("%s: %d %s", request, answer.StatusCode, body)
		}
		if retry := answer.Header.Get("Retry-After"); (retry != "") != (want.status == 503) {
			t.Errorf("%s: Retry-After %q", request, retry)
		}
	}
}
