package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/base/progress"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// console is a log handler for one person: it prints connections and faults as short lines, and
// passes on what another handler wants.
type console struct {
	out   io.Writer
	next  slog.Handler
	users *local.Base

	connected func() // called when a client has authenticated; nil: no calls
}

// withConsole returns a logger that prints connections and faults to out, unless log prints them.
// It calls connected for each client that has authenticated.
func withConsole(out io.Writer, log *slog.Logger, users *local.Base, connected func()) *slog.Logger {
	return slog.New(&console{out: out, next: log.Handler(), users: users, connected: connected})
}

// Enabled implements slog.Handler.
func (c *console) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || c.next.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (c *console) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &console{out: c.out, next: c.next.WithAttrs(attrs), users: c.users, connected: c.connected}
}

// WithGroup implements slog.Handler.
func (c *console) WithGroup(name string) slog.Handler {
	return &console{out: c.out, next: c.next.WithGroup(name), users: c.users, connected: c.connected}
}

// Handle implements slog.Handler.
func (c *console) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == authenticated && c.connected != nil {
		c.connected()
	}
	if c.next.Enabled(ctx, r.Level) {
		return c.next.Handle(ctx, r)
	}
	text := c.text(ctx, r)
	if text == "" {
		return nil
	}
	_, err := fmt.Fprintf(c.out, "%s  %s\n", r.Time.Format("15:04:05.000"), command.Printable(text))
	return err
}

// authenticated is the message of the record about a client that has authenticated.
const authenticated = "client authenticated"

// text returns the line of a record, "" for one that is not shown.
func (c *console) text(ctx context.Context, r slog.Record) string {
	values := map[string]slog.Value{}
	r.Attrs(func(a slog.Attr) bool {
		values[a.Key] = a.Value
		return true
	})
	who := func() string { return c.name(ctx, values["user"]) + " from " + values["address"].String() }
	switch r.Message {
	case authenticated:
		return "connected     " + who()
	case "client is slow":
		return "slow          " + who() + " reads too slowly"
	case "client sends too much":
		return "slowed down   " + who() + " sends too much"
	case "client closed":
		lasted, _ := values["duration"].Any().(time.Duration)
		sent, _ := values["bytes"].Any().(uint64)
		return fmt.Sprintf("disconnected  %s: %s after %s, %s sent", who(), values["reason"], lasted.Round(time.Millisecond), progress.Bytes(int64(sent)))
	case "fault on request":
		return fmt.Sprintf("fault         %s: %s (%s)", values["type"], values["reason"], c.name(ctx, values["user"]))
	}
	return ""
}

// name returns the username for an id.
func (c *console) name(ctx context.Context, id slog.Value) string {
	if id.Equal(slog.Value{}) {
		return "a client without a login"
	}
	u, err := c.users.User(ctx, id.String())
	if err != nil {
		return id.String()
	}
	return u.Username
}
