// Package connlog writes the log of the connections of the stream: when each one has connected,
// authenticated, become slow, sent too much and closed. A flood of connections does not become a
// flood of lines: at most [PerSecond] of them are written, and the others are counted.
//
// # Concurrency
//
// Any goroutine may call Add, which never blocks. Run writes the lines on the goroutine of its
// caller, because the output of a log may block.
package connlog

import (
	"context"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"
)

// PerSecond is the largest number of lines that are written in a second.
const PerSecond = 100

// queueSize is how many events may wait for the output of the log.
const queueSize = 1024

// Kind is a step in the life of a connection.
type Kind uint8

// Kinds of events, and the fields that they use besides Address.
const (
	Connected     Kind = iota // the handshake was accepted
	Authenticated             // User
	Slow                      // User; the client reads too slowly
	Paused                    // User; the client sends too much
	Closed                    // User, Reason, Duration, Bytes
)

func (k Kind) String() string {
	return [...]string{"client connected", "client authenticated", "client is slow", "client sends too much", "client closed"}[k]
}

// Reasons of a closed connection, besides those of the protocol.
const (
	Gone          = "gone"           // the client has closed or vanished
	ProtocolError = "protocol_error" // it violated RFC 6455
)

// Event is a step in the life of one connection.
type Event struct {
	Kind     Kind
	Address  netip.Addr
	User     string // id; "": the connection has not authenticated
	Reason   string
	Duration time.Duration // of the connection
	Bytes    uint64        // of its output that the kernel has accepted
}

// Log writes events.
type Log struct {
	log   *slog.Logger
	queue chan Event
	left  atomic.Uint64 // events that were not written, since the last report
}

// New returns a Log that writes to a logger.
func New(log *slog.Logger) *Log {
	return &Log{log: log, queue: make(chan Event, queueSize)}
}

// Add passes on an event to be written, or counts it as left out.
func (l *Log) Add(e Event) {
	if !l.log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	select {
	case l.queue <- e:
	default:
		l.left.Add(1)
	}
}

// Run writes the events until ctx ends, and then those that wait.
func (l *Log) Run(ctx context.Context) {
	second := time.NewTimer(time.Hour) // from the first event on
	defer second.Stop()
	written := 0 // in this second
	for {
		select {
		case e := <-l.queue:
			if written == 0 {
				second.Reset(time.Second)
			}
			l.writeSome(&e, &written)
		case <-second.C:
			written = 0
			l.report()
		case <-ctx.Done():
			for len(l.queue) > 0 { // nobody else receives
				e := <-l.queue
				l.writeSome(&e, &written)
			}
			l.report()
			return
		}
	}
}

// writeSome writes an event, or counts it as left out above PerSecond.
func (l *Log) writeSome(e *Event, written *int) {
	if *written++; *written > PerSecond {
		l.left.Add(1)
		return
	}
	l.write(e)
}

// report writes how many events were left out, if there are any.
func (l *Log) report() {
	if n := l.left.Swap(0); n > 0 {
		l.log.Info("events of clients not logged", "count", n)
	}
}

func (l *Log) write(e *Event) {
	attrs := make([]slog.Attr, 0, 5)
	if e.Address.IsValid() {
		attrs = append(attrs, slog.String("address", e.Address.String()))
	}
	if e.User != "" {
		attrs = append(attrs, slog.String("user", e.User))
	}
	if e.Kind == Closed {
		attrs = append(attrs, slog.String("reason", e.Reason),
			slog.Duration("duration", e.Duration.Round(time.Millisecond)), slog.Uint64("bytes", e.Bytes))
	}
	l.log.LogAttrs(context.Background(), slog.LevelInfo, e.Kind.String(), attrs...) //nolint:sloglint // each kind has a constant text
}
