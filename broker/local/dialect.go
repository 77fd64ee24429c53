package local

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// dialect is the SQL of a database. Queries are written so that SQLite and PostgreSQL both understand them, but
// for what the methods give.
type dialect struct {
	postgres bool
}

// rebind turns each ? of a query, but for those within quotes, into the $1, $2, ... of PostgreSQL.
func (d dialect) rebind(query string) string {
	if !d.postgres {
		return query
	}
	var b strings.Builder
	quote, n := byte(0), 0
	for i := range len(query) {
		switch c := query[i]; {
		case quote == 0 && (c == '\'' || c == '"'), c == quote:
			quote ^= c
			b.WriteByte(c)
		case c == '?' && quote == 0:
			n++
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(n))
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// name is the place of a username in an expression whose collation has to be that of the column.
func (d dialect) name() string {
	if d.postgres {
		return `CAST(? AS text) COLLATE "C"`
	}
	return "?"
}

// forUpdate ends a SELECT whose rows the transaction is about to change. SQLite's holds the write lock from its start.
func (d dialect) forUpdate() string {
	if d.postgres {
		return " FOR UPDATE"
	}
	return ""
}

// Limits of what is asked of PostgreSQL, which is elsewhere and may not answer; an import may be of a hundred thousand users.
const (
	askLimit    = 2 * time.Second
	importLimit = 10 * time.Minute
)

// limit bounds the time that something may take. SQLite has a limit of its own.
func (d dialect) limit(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	if d.postgres {
		return context.WithTimeout(ctx, most)
	}
	return ctx, func() {}
}

// watchPostgres is Watch on PostgreSQL, where triggers count the changes and tell of them. Listen calls every few
// seconds whether there was one or not, so the count decides.
func (b *Base) watchPostgres(ctx context.Context, changed func()) error {
	if b.listen == nil {
		return errors.New("watch the user base: nothing listens to the database")
	}
	known, err := b.countChanges(ctx)
	if err != nil {
		return fmt.Errorf("watch the user base: %w", err)
	}
	return b.listen(ctx, channel, func() {
		// A look that fails is made again: the count still differs then.
		if n, err := b.countChanges(ctx); err == nil && n != known {
			known = n
			changed()
		}
	})
}

func (b *Base) countChanges(ctx context.Context) (n int64, err error) {
	ctx, cancel := b.sql.limit(ctx, askLimit)
	defer cancel()
	err = b.reader.QueryRowContext(ctx, `SELECT n FROM users_changes WHERE one = 1`).Scan(&n)
	return n, err
}
