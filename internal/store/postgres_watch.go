package store

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ruedahq/rueda/internal/auth"
)

// Channels of notifications.
const (
	revokedChannel = "rueda_revoked"
	keysChannel    = "rueda_keys"
)

const (
	// lookEvery is the polling behind the notifications.
	lookEvery = 5 * time.Second
	// watchMargin is by how much the clocks of gateways may differ.
	watchMargin = time.Minute
	// Pauses before connecting again.
	firstPause  = 100 * time.Millisecond
	longestWait = time.Second
	// noticeSize is under the 8,000 bytes that a notification may have.
	noticeSize = 7000
)

// notices are the texts that tell of revoked families: lines of an id and the time.
func notices(over []*auth.Family) (texts []string) {
	var b strings.Builder
	for _, f := range over {
		line := f.ID + " " + strconv.FormatInt(f.Revoked.UnixNano(), 10) + "\n"
		if b.Len()+len(line) > noticeSize && b.Len() > 0 {
			texts = append(texts, b.String())
			b.Reset()
		}
		b.WriteString(line)
	}
	return append(texts, b.String())
}

// readNotice is the inverse of notices. What is not of its form is skipped: the polling finds it.
func readNotice(text string) (list []auth.Revocation) {
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

// Watch implements auth.Store. Notifications tell at once; every 5 s, and when the connection is there again,
// the table is read, since what was notified meanwhile is lost.
func (s *Postgres) Watch(ctx context.Context, tell func([]auth.Revocation)) error {
	since := time.Now()
	told := make(map[auth.Revocation]bool) // what the next look finds again need not be repeated
	look := func() {
		now := time.Now()
		list, err := s.Revoked(ctx, since.Add(-watchMargin))
		if err != nil {
			return // what was missed is found by the next look
		}
		since = now
		seen := make(map[auth.Revocation]bool, len(list))
		var news []auth.Revocation
		for _, r := range list {
			seen[r] = true
			if !told[r] {
				news = append(news, r)
			}
		}
		told = seen
		if len(news) > 0 {
			tell(news)
		}
	}
	s.listen(ctx, revokedChannel, look, func(text string) {
		list := slices.DeleteFunc(readNotice(text), func(r auth.Revocation) bool { return told[r] })
		for _, r := range list {
			told[r] = true
		}
		if len(list) > 0 {
			tell(list)
		}
	})
	return nil
}

// Listen calls told after each notification on a channel, and without one every 5 s and when the connection is there
// again. It returns nil when ctx ends.
func (s *Postgres) Listen(ctx context.Context, channel string, told func()) error {
	s.listen(ctx, channel, told, func(string) { told() })
	return nil
}

// listen has a connection of its own until ctx ends, since one of the pool's would be missing there. While it cannot be had,
// look is called all the same: it may be only this one that fails.
func (s *Postgres) listen(ctx context.Context, channel string, look func(), told func(string)) {
	pause := firstPause
	lastLook := time.Now()
	for ctx.Err() == nil {
		began := time.Now()
		_ = s.listenOnce(ctx, channel, look, told) // why it ended is told by every operation that fails for the same reason
		if time.Since(began) > lookEvery {
			pause = firstPause
		}
		if time.Since(lastLook) > lookEvery {
			lastLook = time.Now()
			look()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, longestWait)
	}
}

// listenOnce listens until the connection fails or ctx ends.
func (s *Postgres) listenOnce(ctx context.Context, channel string, look func(), told func(string)) error {
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
		look()
		until, cancel := context.WithTimeout(ctx, lookEvery)
		for err == nil {
			var n *pgconn.Notification
			if n, err = conn.WaitForNotification(until); err == nil {
				told(n.Payload)
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

// alive asks whether the other end of a quiet connection is still there.
func alive(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, postgresLimit)
	defer cancel()
	return conn.Ping(ctx)
}
