package cli

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSystemd checks what serve reports to systemd: that it is ready, that it answers its own
// health check, that it reads its configuration again, and that it drains.
func TestSystemd(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("windows has no datagram sockets of files: runtime.GOOS")
	}
	folder := t.TempDir()
	socket := filepath.Join(folder, "notify")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer systemd.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "3000000")
	config := filepath.Join(folder, "rueda.toml")
	write(t, config, "data = \"data\"\nlisten = \"127.0.0.1:0\"\ndrain = \"100ms\"\n")
	received := func(want string) {
		t.Helper()
		if err := systemd.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 1000)
		for {
			n, err := systemd.Read(b)
			if err != nil {
				t.Fatalf("systemd waits for %s: %v", want, err)
			}
			if strings.HasPrefix(string(b[:n]), want) {
				return
			}
		}
	}
	server := start(t, "serve", "--config", config)
	received("READY=1\nSTATUS=Serves http://127.0.0.1:")
	received("WATCHDOG=1")
	hangUp := func() {
		t.Helper()
		own, err := os.FindProcess(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if err := own.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		received("RELOADING=1\nMONOTONIC_USEC=")
		received("READY=1\nSTATUS=Serves http://127.0.0.1:")
	}
	write(t, config, "data = \"data\"\nlisten = \"127.0.0.1:0\"\ndrain = \"100ms\"\n[limits]\nsubscriptions = 7\n")
	hangUp()
	server.said(`msg="configuration read again" .*applied=limits.subscriptions`)
	write(t, config, "listen = 1\n")
	hangUp()
	server.said(`msg="configuration not applied, keeping the old one" .*rueda.toml:1: listen`)
	server.stop()
	received("STOPPING=1")
	if status := server.exit(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// TestDevOrigin checks that pages of the origin of --origin may call the gateway, and no others.
func TestDevOrigin(t *testing.T) {
	t.Parallel()
	_, url := startDev(t, "--origin", "http://localhost:5173")
	for origin, want := range map[string]string{"http://localhost:5173": "http://localhost:5173", "http://localhost:5174": ""} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/livez", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", origin)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if got := res.Header.Get("Access-Control-Allow-Origin"); got != want {
			t.Errorf("Origin %s: allowed %q, want %q", origin, got, want)
		}
	}
}
