// Command write makes the folder of a commit in tests/upgrade with the program of that commit:
//
//	tests/upgrade/build.sh COMMIT build/old
//	go run ./tests/upgrade/write -rueda build/old -commit COMMIT -out tests/upgrade/NAME
//
// It needs PostgreSQL with pg_dump, and takes about two minutes. It writes what a producer sent and
// a client received, and what the program answered to requests with the logins, so that the tests of
// a later program can compare. It asks copies of the data, because questions change them. What the
// program answers wrongly about the rows is written by TestRows in a tree of the commit.
//
// # Concurrency
//
// A follower has one goroutine, which stop waits for.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ruedahq/rueda/internal/testing/pgtest"
)

func main() {
	rueda := flag.String("rueda", "", "program of the commit")
	commit := flag.String("commit", "", "the commit, 40 digits")
	out := flag.String("out", "", "folder to create")
	flag.Parse()
	if err := run(*rueda, *commit, *out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(rueda, commit, out string) (err error) {
	if len(commit) != 40 {
		return errors.New("-commit has 40 hexadecimal digits")
	}
	if rueda, err = filepath.Abs(rueda); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "upgrade")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := os.MkdirAll(filepath.Join(out, "configuration"), 0o755); err != nil {
		return err
	}
	w := &writer{program: rueda, commit: commit, work: work, out: out}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := w.keysOfConfiguration(ctx); err != nil {
		return fmt.Errorf("list the keys of rueda.toml: %w", err)
	}
	if err := w.sqlite(ctx); err != nil {
		return fmt.Errorf("write the SQLite database and the journals: %w", err)
	}
	server, err := pgtest.Launch()
	if err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if err := w.postgres(ctx, server); err != nil {
		return fmt.Errorf("write the PostgreSQL database: %w", err)
	}
	return nil
}

// writer makes one folder.
type writer struct {
	program string
	commit  string
	work    string // temporary
	out     string
}

// secondsBefore is how long before a midnight of its clock the program starts.
const secondsBefore = 150

// sqlite writes the folder sqlite, with users and a journal, and the rows of the journal.
func (w *writer) sqlite(ctx context.Context) error {
	in := w.installation("sqlite")
	now := time.Now().UTC()
	in.ahead = now.Truncate(24 * time.Hour).Add(24*time.Hour - secondsBefore*time.Second).Sub(now).Truncate(time.Second)
	if in.ahead < 0 {
		in.ahead += 24 * time.Hour
	}
	if err := in.create(ctx, ""); err != nil {
		return err
	}
	logins, err := in.logins(ctx)
	if err != nil {
		return err
	}
	if err := (&stream{installation: in}).write(ctx, w.out); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	if err := in.expect(ctx, logins); err != nil {
		return err
	}
	return in.publish(w.out)
}

// postgres writes the folder postgres, with the same users and a dump of their database.
func (w *writer) postgres(ctx context.Context, server *pgtest.Server) error {
	in := w.installation("postgres")
	if err := in.create(ctx, server.DSN("postgres")); err != nil {
		return err
	}
	logins, err := in.logins(ctx)
	if err != nil {
		return err
	}
	if err := in.dump(ctx, server.DSN("postgres")); err != nil {
		return err
	}
	// The dump is made before the questions, which change the database.
	if err := in.expect(ctx, logins); err != nil {
		return err
	}
	for _, name := range []string{"database.url", "data"} {
		if err := os.RemoveAll(filepath.Join(in.folder, name)); err != nil {
			return err
		}
	}
	return in.publish(w.out)
}
