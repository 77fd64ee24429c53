// Package sdnotify reports the state of this process to systemd, by datagrams to the socket that
// the variable NOTIFY_SOCKET names (sd_notify(3)).
//
// # Concurrency
//
// Watchdog blocks its caller until its context ends. Other methods may be called by any goroutine.
package sdnotify

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Notifier sends states. A nil Notifier sends nothing.
type Notifier struct {
	socket   string
	watchdog time.Duration // interval in which systemd expects a sign of life; 0: none
}

// New returns the notifier of this process; nil if systemd does not wait for one. getenv is
// os.Getenv.
func New(getenv func(string) string) *Notifier {
	n := &Notifier{socket: getenv("NOTIFY_SOCKET")}
	if n.socket == "" {
		return nil
	}
	if name, ok := strings.CutPrefix(n.socket, "@"); ok {
		n.socket = "\x00" + name // an abstract socket
	}
	usec, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64)
	if pid := getenv("WATCHDOG_PID"); err == nil && usec > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.watchdog = time.Duration(usec) * time.Microsecond
	}
	return n
}

// Ready reports that the gateway answers requests, with a line for systemctl status.
func (n *Notifier) Ready(status string) error { return n.send("READY=1\nSTATUS=" + line(status)) }

// Reloading reports that the gateway reads its configuration again. Ready ends that.
func (n *Notifier) Reloading() error {
	return n.send("RELOADING=1\nMONOTONIC_USEC=" + strconv.FormatInt(monotonic(), 10))
}

// Stopping reports that the gateway drains.
func (n *Notifier) Stopping() error { return n.send("STOPPING=1\nSTATUS=Draining") }

// line removes the characters that would end a line.
func line(s string) string { return strings.Map(func(r rune) rune { return max(r, ' ') }, s) }

func (n *Notifier) send(state string) error {
	if n == nil {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	_, err = conn.Write([]byte(state))
	if closed := conn.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}

// Watchdog sends a sign of life three times in each interval, as long as alive returns nil, until
// ctx ends. Without a watchdog it returns at once.
func (n *Notifier) Watchdog(ctx context.Context, alive func(context.Context) error) {
	if n == nil || n.watchdog == 0 {
		return
	}
	tick := time.NewTicker(n.watchdog / 3)
	defer tick.Stop()
	for {
		check, cancel := context.WithTimeout(ctx, n.watchdog/3)
		if alive(check) == nil {
			_ = n.send("WATCHDOG=1") // the next one follows
		}
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
