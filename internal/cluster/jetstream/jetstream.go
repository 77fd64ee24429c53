package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Config configures a Session. Zero values have the defaults that are stated.
type Config struct {
	URLs        []string // of NATS servers, nats://host:port or tls://host:port
	Cluster     string   // name of the cluster: letters, digits, - and _
	Node        string   // name of this node, of the same characters
	Credentials string   // file of NATS credentials; "": none
	Authorities string   // file of CA certificates in PEM; "": those of the system
	Certificate string   // files of a client certificate and its key, in PEM; "": none
	Key         string
	Replicas    int           // of the stream and the lease, when they are created; 0: 3, or 1 with one URL
	Bytes       int64         // kept in the stream; 0: 16 GiB
	Age         time.Duration // kept in the stream; 0: 24 h
	MustExist   bool          // the stream is that of other nodes: Dial does not make one
	Logger      *slog.Logger  // nil: discarded
}

// names are the characters of the names of clusters and nodes, which become parts of subjects.
const names = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

// validName reports whether a name of a cluster or a node is valid.
func validName(s string) bool { return s != "" && len(s) <= 32 && strings.Trim(s, names) == "" }

// Fill sets the defaults. The error says which setting is wrong.
func (c *Config) Fill() error {
	switch {
	case !validName(c.Cluster):
		return fmt.Errorf("the name of the cluster, %q, must have 1 to 32 letters, digits, - or _", c.Cluster)
	case !validName(c.Node):
		return fmt.Errorf("the name of the node, %q, must have 1 to 32 letters, digits, - or _", c.Node)
	case len(c.URLs) == 0:
		return errors.New("the cluster has no address of a NATS server")
	}
	if c.Replicas == 0 {
		c.Replicas = 3
		if len(c.URLs) == 1 {
			c.Replicas = 1
		}
	}
	c.Bytes, c.Age = cmp.Or(c.Bytes, 16<<30), cmp.Or(c.Age, 24*time.Hour)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// The names of what a cluster has in NATS.
func (c *Config) streamName() string         { return "rueda-" + c.Cluster }
func (c *Config) bucketName() string         { return "rueda-" + c.Cluster + "-lease" }
func (c *Config) subject(kind string) string { return "rueda." + c.Cluster + "." + kind }

const (
	requestTimeout = 2 * time.Second // of one request to JetStream
	writeTimeout   = time.Second / 2 // of an append or a write of the lease: it may have succeeded
	arrivals       = 1 << 16         // messages that may wait in a session
	notes          = 1 << 12         // messages that may wait in a channel of Notes
	idleHeartbeat  = time.Second     // of the consumer
	missedAfter    = 3 * idleHeartbeat
)

// Session is a connection to the log and the other nodes.
type Session struct {
	cfg    Config
	conn   *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
	lease  jetstream.KeyValue
	came   chan *nats.Msg
	closed chan struct{} // closed when the connection ends

	rows  *nats.Subscription // of the consumer; nil: none
	next  uint64             // number of the next message in the consumer
	heard time.Time          // when the consumer last sent anything
}

// errorsEvery is the time between two log records about errors of a connection.
const errorsEvery = 10 * time.Second

// logErrors returns a handler that logs the first error of a connection, and later ones at most
// once in errorsEvery, with how many came in between. The library calls it on one goroutine.
func logErrors(log *slog.Logger) nats.ErrHandler {
	var last time.Time
	count := 0
	return func(_ *nats.Conn, _ *nats.Subscription, err error) {
		count++
		if now := time.Now(); last.IsZero() || now.Sub(last) >= errorsEvery {
			log.Warn("error of the connection to NATS", "error", err, "count", count)
			last, count = now, 0
		}
	}
}

// Dial connects to NATS. It creates the lease if it is missing, and the stream too unless
// cfg.MustExist is set: a missing stream is then an error. Call cfg.Fill first. The caller closes
// the Session.
func Dial(ctx context.Context, cfg Config) (*Session, error) {
	s := &Session{cfg: cfg, came: make(chan *nats.Msg, arrivals), closed: make(chan struct{})}
	options := []nats.Option{
		nats.Name("rueda " + cfg.Cluster + " " + cfg.Node), nats.NoReconnect(), nats.Timeout(requestTimeout),
		nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2), nats.FlusherTimeout(requestTimeout),
		nats.ClosedHandler(func(*nats.Conn) { close(s.closed) }),
		nats.ErrorHandler(logErrors(cfg.Logger)),
	}
	if cfg.Credentials != "" {
		options = append(options, nats.UserCredentials(cfg.Credentials))
	}
	if cfg.Authorities != "" {
		options = append(options, nats.RootCAs(cfg.Authorities))
	}
	if cfg.Certificate != "" {
		options = append(options, nats.ClientCert(cfg.Certificate, cfg.Key))
	}
	conn, err := nats.Connect(strings.Join(cfg.URLs, ","), options...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	s.conn = conn
	if err := s.open(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// open finds or creates the stream and the lease.
func (s *Session) open(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	c := &s.cfg
	if s.js, err = jetstream.New(s.conn); err != nil {
		return fmt.Errorf("open JetStream: %w", err)
	}
	s.stream, err = attempt(ctx, func(ctx context.Context) (jetstream.Stream, error) { return s.js.Stream(ctx, c.streamName()) })
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if c.MustExist {
			return fmt.Errorf("NATS has no log of cluster %q yet: start a node that may be the sequencer, see what it logs, or correct the name", c.Cluster)
		}
		// Without direct reads: a replica that is behind must not answer.
		s.stream, err = s.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: c.streamName(), Subjects: []string{c.subject("rows")}, Description: "numbered rows of Rueda",
			Storage: jetstream.FileStorage, Replicas: c.Replicas, MaxBytes: c.Bytes, MaxAge: c.Age,
			Discard: jetstream.DiscardOld, DenyDelete: true,
		})
	}
	if err != nil {
		return fmt.Errorf("open or create the stream %s: %w", c.streamName(), explainStorage(c, explainSilence(err)))
	}
	s.lease, err = attempt(ctx, func(ctx context.Context) (jetstream.KeyValue, error) { return s.js.KeyValue(ctx, c.bucketName()) })
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		s.lease, err = s.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: c.bucketName(), Description: "who is the sequencer of Rueda", History: 1, Replicas: c.Replicas, Storage: jetstream.FileStorage, MaxBytes: 1 << 20,
		})
	}
	if err != nil {
		return fmt.Errorf("open or create the lease %s: %w", c.bucketName(), explainSilence(err))
	}
	return nil
}

// explainSilence says what to do if a NATS server is connected and JetStream does not answer.
func explainSilence(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("JetStream does not answer, so a majority of the NATS servers may not run: %w", err)
}

// explainStorage says what to do if NATS has not enough storage for the stream.
func explainStorage(c *Config, err error) error {
	e := (*jetstream.APIError)(nil)
	if !errors.As(err, &e) || !slices.Contains([]jetstream.ErrorCode{noPeers, noResources, noStorage}, e.ErrorCode) {
		return err
	}
	return fmt.Errorf("NATS cannot reserve %d MiB for the log on %d servers: raise max_file_store of nats-server above it, or lower bytes in [cluster]: %w", c.Bytes>>20, c.Replicas, err)
}

// Errors of JetStream that the client does not name.
const (
	noPeers     jetstream.ErrorCode = 10005 // no servers fit, for example because their storage does not suffice
	noResources jetstream.ErrorCode = 10023
	noStorage   jetstream.ErrorCode = 10047
)

// Close ends the session.
func (s *Session) Close() { s.conn.Close() }

// Server returns the name and the address of the NATS server.
func (s *Session) Server() string {
	return s.conn.ConnectedServerName() + " " + s.conn.ConnectedAddr()
}

// Outdated returns the version of the server if it is older than 2.12, the oldest one that this
// program is tested with, and "" otherwise.
func (s *Session) Outdated() string {
	v := s.conn.ConnectedServerVersion()
	var major, minor int
	if n, _ := fmt.Sscanf(v, "%d.%d", &major, &minor); n < 2 || major > 2 || major == 2 && minor >= 12 {
		return ""
	}
	return v
}

// Closed returns a channel that is closed when the session has ended.
func (s *Session) Closed() <-chan struct{} { return s.closed }

// Append appends a message to the stream if the newest message has the sequence expected, and
// returns the sequence of the new one. refused reports that the newest message has another
// sequence. After any other error, such as that of the time limit of 500 ms, the message may have
// been appended.
func (s *Session) Append(ctx context.Context, expected uint64, data []byte) (sequence uint64, refused bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	ack, err := s.js.Publish(ctx, s.cfg.subject("rows"), data, jetstream.WithExpectLastSequence(expected),
		jetstream.WithExpectStream(s.cfg.streamName()), jetstream.WithRetryAttempts(0))
	if err != nil {
		return 0, isWrongSequence(err), fmt.Errorf("append after message %d: %w", expected, err)
	}
	return ack.Sequence, false, nil
}

// isWrongSequence reports whether JetStream refused a message because of its expected sequence.
func isWrongSequence(err error) bool {
	e := (*jetstream.APIError)(nil)
	return errors.As(err, &e) && e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
}

// bounds returns the sequences of the oldest and the newest message, as the leader of the stream
// knows them.
func (s *Session) bounds(ctx context.Context) (first, last uint64, err error) {
	info, err := attempt(ctx, func(ctx context.Context) (*jetstream.StreamInfo, error) { return s.stream.Info(ctx) })
	if err != nil {
		return 0, 0, fmt.Errorf("ask for the bounds of the stream: %w", err)
	}
	return info.State.FirstSeq, info.State.LastSeq, nil
}

// ReadLast returns the newest message of the stream. Its sequence is 0 if there was never one. data
// is nil if the stream has no message now.
func (s *Session) ReadLast(ctx context.Context) (sequence uint64, data []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	first, last, err := s.bounds(ctx)
	if err != nil || last == 0 || first > last {
		return last, nil, err
	}
	m, err := attempt(ctx, func(ctx context.Context) (*jetstream.RawStreamMsg, error) { return s.stream.GetMsg(ctx, last) })
	if err != nil {
		return 0, nil, fmt.Errorf("read the newest message: %w", err)
	}
	return last, m.Data, nil
}

// Attach replaces the consumer of the stream by one that begins with a sequence. It returns the
// sequences of the oldest and the newest message, as they are after the consumer was made. Messages
// of the former consumer do not count any more.
func (s *Session) Attach(ctx context.Context, from uint64) (first, last uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	if s.rows != nil {
		_ = s.rows.Unsubscribe() // the server removes its consumer
	}
	inbox := s.conn.NewInbox()
	if s.rows, err = s.conn.ChanSubscribe(inbox, s.came); err != nil {
		return 0, 0, fmt.Errorf("read the stream: %w", err)
	}
	s.next, s.heard = 1, time.Now()
	// The consumer has a name, so that a repeated request makes no second one.
	consumer := jetstream.ConsumerConfig{
		Name: s.cfg.Node + "-" + inbox[strings.LastIndexByte(inbox, '.')+1:], DeliverSubject: inbox, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(1, from), AckPolicy: jetstream.AckNonePolicy,
		FlowControl: true, IdleHeartbeat: idleHeartbeat, InactiveThreshold: 10 * time.Second, MemoryStorage: true, Replicas: 1,
	}
	_, err = attempt(ctx, func(ctx context.Context) (jetstream.PushConsumer, error) {
		return s.js.CreatePushConsumer(ctx, s.cfg.streamName(), consumer)
	})
	if err != nil {
		return 0, 0, fmt.Errorf("read the stream from %d: %w", from, explainSilence(err))
	}
	return s.bounds(ctx)
}

// Lease returns the holder of the lease and its revision; "" and 0 if it was never written.
func (s *Session) Lease(ctx context.Context) (holder string, revision uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	e, err := attempt(ctx, func(ctx context.Context) (jetstream.KeyValueEntry, error) { return s.lease.Get(ctx, leaseKey) })
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("read the lease: %w", err)
	}
	return string(e.Value()), e.Revision(), nil
}

// leaseKey is the key of the lease in its bucket.
const leaseKey = "sequencer"

// WriteLease changes the holder of the lease if its revision is expected, and returns the new one.
// After an error, such as that of the time limit of 500 ms, the lease may have been written.
func (s *Session) WriteLease(ctx context.Context, holder string, expected uint64) (revision uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if revision, err = s.lease.Update(ctx, leaseKey, []byte(holder), expected); err != nil {
		return 0, fmt.Errorf("write the lease: %w", err)
	}
	return revision, nil
}

// WatchLease calls f with the lease whenever it changes, on a goroutine, until ctx ends. It returns
// when the watch has begun.
func (s *Session) WatchLease(ctx context.Context, f func(holder string, revision uint64)) error {
	w, err := s.lease.Watch(ctx, leaseKey)
	if err != nil {
		return fmt.Errorf("watch the lease: %w", err)
	}
	go func() {
		for e := range w.Updates() {
			if e != nil {
				f(string(e.Value()), e.Revision())
			}
		}
	}()
	return nil
}
