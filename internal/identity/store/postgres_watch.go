package store

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ruedahq/rueda/internal/identity/auth"
)

// Notification channels.
const (
	revokedChannel = "rueda_revoked"
	keysChannel    = "rueda_keys"
)

const (
	// pollInterval is the interval of polling in addition to notifications.
	pollInterval = 5 * time.Second
	// watchMargin is the maximum difference between clocks of gateways.
	watchMargin = time.Minute
	// Pauses before the next connection attempt.
	minBackoff = 100 * time.Millisecond
	maxBackoff = time.Second
	// maxPayload is less than the 8,000 bytes of a notification.
	maxPayload = 7000
)

// revocationPayloads returns notifications of revoked families: lines of an id and a time.
func revocationPayloads(revoked []*auth.Family) (texts []string) {
	var b strings.Builder
	for _, f := range revoked {
		line := f.ID + " " + strconv.FormatInt(f.Revoked.UnixNano(), 10) + "\n"
		if b.Len()+len(line) > maxPayload && b.Len() > 0 {
			texts = append(texts, b.String())
			b.Reset()
		}
		b.WriteString(line)
	}
	return append(texts, b.String())
}

// parsePayload is the inverse of revocationPayloads. It skips invalid lines, which polling finds.
func parsePayload(text string) (list []auth.Revocation) {
	for line := range strings.Lines(text) {
		i := strings.LastIndexByte(line, ' ')
		if i < 0 {
			continue
		}
		at, err := strconv.ParseInt(strings.TrimSpace(line[i+1:]), 10, 64)
		if err == nil {
			list = append(list, auth.Revocation{Family: line[:i], At: time.Unix(0, at)})
		}
	}
	return list
}

// Watch implements auth.Store. A notification only says which families to look at: every role that
// may connect can send one. Every 5 s, and after a reconnect, it also reads the table, because
// notifications may be lost.
func (s *Postgres) Watch(ctx context.Context, report func([]auth.Revocation)) error {
	since := time.Now()
	reported := make(map[auth.Revocation]bool) // from notifications since the last poll
	poll := func() {
		now := time.Now()
		list, err := s.Revoked(ctx, since.Add(-watchMargin))
		if err != nil {
			if ctx.Err() == nil {
				s.writes.fail() // so that an outage shows on a gateway without logins
			}
			return // the next poll finds it
		}
		since = now
		seen := make(map[auth.Revocation]bool, len(list))
		var fresh []auth.Revocation
		for _, r := range list {
			seen[r] = true
			if !reported[r] {
				fresh = append(fresh, r)
			}
		}
		reported = seen
		if len(fresh) > 0 {
			report(fresh)
		}
	}
	s.listen(ctx, revokedChannel, poll, func(text string) {
		var ids []string
		for _, r := range parsePayload(text) {
			if !reported[r] {
				ids = append(ids, r.Family)
			}
		}
		list, err := s.revokedOf(ctx, ids)
		if err != nil {
			return // the next poll finds them
		}
		for _, r := range list {
			reported[r] = true
		}
		if len(list) > 0 {
			report(list)
		}
	})
	return nil
}

// revokedOf returns the revocations of those families that are revoked.
func (s *Postgres) revokedOf(ctx context.Context, ids []string) (revoked []auth.Revocation, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return list(ctx, s, "read revoked families", scanRevocation, `SELECT id, revoked_at FROM families WHERE id = ANY ($1) AND revoked_at IS NOT NULL`, ids)
}

func scanRevocation(scan func(...any) error) (r auth.Revocation, err error) {
	var at int64
	err = scan(&r.Family, &at)
	r.At = time.Unix(0, at)
	return r, err
}

// Listen calls changed after each notification on a channel, every 5 s without one, and after a
// reconnect. It returns nil when ctx ends.
func (s *Postgres) Listen(ctx context.Context, channel string, reported func()) error {
	s.listen(ctx, channel, reported, func(string) { reported() })
	return nil
}

// listen keeps its own connection until ctx ends, so that the pool has one less user. It calls poll
// even while it has no connection, because only this connection may be broken.
func (s *Postgres) listen(ctx context.Context, channel string, poll func(), reported func(string)) {
	pause := minBackoff
	lastPoll := time.Now()
	for ctx.Err() == nil {
		began := time.Now()
		_ = s.listenOnce(ctx, channel, poll, reported) // other operations report the same error
		if time.Since(began) > pollInterval {
			pause = minBackoff
		}
		if time.Since(lastPoll) > pollInterval {
			lastPoll = time.Now()
			poll()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, maxBackoff)
	}
}

// listenOnce listens until the connection fails or ctx ends.
func (s *Postgres) listenOnce(ctx context.Context, channel string, poll func(), reported func(string)) error {
	conn, err := s.dial(ctx, channel)
	if err != nil {
		return err
	}
	defer func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), postgresLimit)
		defer cancel()
		_ = conn.Close(limited)
	}()
	for ctx.Err() == nil {
		poll()
		until, cancel := context.WithTimeout(ctx, pollInterval)
		for err == nil {
			var n *pgconn.Notification
			if n, err = conn.WaitForNotification(until); err == nil {
				reported(n.Payload)
			}
		}
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		if err = alive(ctx, conn); err != nil {
			return err
		}
	}
	return nil
}

func (s *Postgres) dial(ctx context.Context, channel string) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, postgresLimit)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, `LISTEN `+pgx.Identifier{channel}.Sanitize()); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return conn, nil
}

// alive checks a quiet connection.
func alive(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, postgresLimit)
	defer cancel()
	return conn.Ping(ctx)
}
