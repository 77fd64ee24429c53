package sdnotify_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/ops/sdnotify"
)

// recent reports whether the time of a state is that of the kernel, within a minute. The clock
// since the start of the machine may have counted the time of suspensions too.
func recent(t *testing.T, state string) bool {
	t.Helper()
	_, text, _ := strings.Cut(state, "MONOTONIC_USEC=")
	usec, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	uptime, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	seconds, err := strconv.ParseFloat(strings.Fields(string(uptime))[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return usec > 0 && float64(usec)/1e6 < seconds+60
}

// TestNotify checks the datagrams that systemd receives.
func TestNotify(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("windows has no datagram sockets of files: runtime.GOOS")
	}
	socket := filepath.Join(t.TempDir(), "notify")
	server, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	read := func() string {
		t.Helper()
		if err := server.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 1000)
		n, err := server.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	env := map[string]string{"NOTIFY_SOCKET": socket, "WATCHDOG_USEC": "30000"}
	n := sdnotify.New(func(name string) string { return env[name] })
	for _, step := range []struct {
		send func() error
		want string
	}{
		{func() error { return n.Ready("serves\non 1") }, "READY=1\nSTATUS=serves on 1"},
		{n.Stopping, "STOPPING=1\nSTATUS=Draining"},
	} {
		if err := step.send(); err != nil {
			t.Fatal(err)
		}
		if got := read(); got != step.want {
			t.Errorf("received %q, want %q", got, step.want)
		}
	}
	if err := n.Reloading(); err != nil {
		t.Fatal(err)
	}
	if got := read(); !strings.HasPrefix(got, "RELOADING=1\nMONOTONIC_USEC=") || runtime.GOOS == "linux" && !recent(t, got) {
		t.Errorf("received %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	calls := 0
	go func() {
		n.Watchdog(ctx, func(context.Context) error {
			if calls++; calls == 1 {
				return errors.New("not alive")
			}
			return nil
		})
		close(ended)
	}()
	if got := read(); got != "WATCHDOG=1" {
		t.Errorf("received %q", got)
	}
	cancel()
	<-ended
	if calls < 2 {
		t.Error("a gateway that is not alive was reported alive")
	}
}

// TestWithoutSystemd checks that nothing is sent and that the watchdog returns.
func TestWithoutSystemd(t *testing.T) {
	t.Parallel()
	n := sdnotify.New(func(string) string { return "" })
	if err := errors.Join(n.Ready("x"), n.Stopping()); err != nil {
		t.Error(err)
	}
	n.Watchdog(t.Context(), nil)
	of := map[string]string{"NOTIFY_SOCKET": "@rueda-test", "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}
	sdnotify.New(func(name string) string { return of[name] }).Watchdog(t.Context(), nil)
}
