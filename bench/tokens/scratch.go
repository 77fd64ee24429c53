package tokens

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
)

// scratch creates a database on the server of url, and returns its URL and a function that drops
// it.
func scratch(ctx context.Context, base string) (to string, drop func() error, err error) {
	u, err := url.Parse(base)
	if err != nil {
		return "", nil, errors.New("the database's URL is not understood") // the cause contains it
	}
	name := "rueda_bench_" + strings.ToLower(rand.Text())
	if err := execute(ctx, base, `CREATE DATABASE `+name); err != nil {
		return "", nil, fmt.Errorf("make a database to measure with: %w", err)
	}
	u.Path = "/" + name
	return u.String(), func() error { return execute(context.WithoutCancel(ctx), base, `DROP DATABASE `+name+` WITH (FORCE)`) }, nil
}

func execute(ctx context.Context, base, query string) error {
	conn, err := pgx.Connect(ctx, base)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, query)
	return errors.Join(err, conn.Close(ctx))
}
