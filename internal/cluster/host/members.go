package host

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/cluster"
)

// DatabaseMembers are the Members of a cluster in the database that its nodes share. A row with
// active = 0 is of a node that is not registered. It keeps the count, and the name of the cluster.
type DatabaseMembers struct {
	Cluster string
	DB      interface {
		Reader() *sql.DB
		Writer() *sql.DB
	}
}

// membersTimeout bounds an operation.
const membersTimeout = 5 * time.Second

// List implements Members. The list is ordered by name.
func (d DatabaseMembers) List(ctx context.Context) (list []cluster.Member, err error) {
	var x cluster.Member
	err = d.each(ctx, func() { list = append(list, x) }, []any{&x.Name, &x.Number},
		`SELECT node, registrations FROM cluster_nodes WHERE cluster = $1 AND active = 1 ORDER BY node`, d.Cluster)
	return list, err
}

// clusters returns the names of all clusters that have rows in the database, in their order.
func (d DatabaseMembers) clusters(ctx context.Context) (names []string, err error) {
	name := ""
	err = d.each(ctx, func() { names = append(names, name) }, []any{&name}, `SELECT DISTINCT cluster FROM cluster_nodes ORDER BY cluster`)
	return names, err
}

// each calls row for each row of a query, which was scanned into dest.
func (d DatabaseMembers) each(ctx context.Context, row func(), dest []any, query string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, membersTimeout)
	defer cancel()
	rows, err := d.DB.Reader().QueryContext(ctx, query, args...)
	if err == nil {
		defer func() { _ = rows.Close() }() // rows.Err has its error
		for rows.Next() && err == nil {
			if err = rows.Scan(dest...); err == nil {
				row()
			}
		}
		err = errors.Join(err, rows.Err())
	}
	if err != nil {
		return fmt.Errorf("read the nodes of the cluster: %w", err)
	}
	return nil
}

// Register implements Members. The number counts the registrations of the node.
func (d DatabaseMembers) Register(ctx context.Context, node string) (number uint64, isNew bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, membersTimeout)
	defer cancel()
	err = d.DB.Writer().QueryRowContext(ctx, `UPDATE cluster_nodes SET registrations = registrations + 1
		WHERE cluster = $1 AND node = $2 AND active = 1 RETURNING registrations`, d.Cluster, node).Scan(&number)
	if errors.Is(err, sql.ErrNoRows) {
		isNew = true
		err = d.DB.Writer().QueryRowContext(ctx, `INSERT INTO cluster_nodes (cluster, node, registrations, active) VALUES ($1, $2, 1, 1)
			ON CONFLICT (cluster, node) DO UPDATE SET registrations = cluster_nodes.registrations + 1, active = 1
			RETURNING registrations`, d.Cluster, node).Scan(&number)
	}
	if err != nil {
		return 0, false, fmt.Errorf("register a node of the cluster: %w", err)
	}
	return number, isNew, nil
}

// Claim implements Members.
func (d DatabaseMembers) Claim(ctx context.Context, node string, force bool) (others []string, err error) {
	names, err := d.clusters(ctx)
	switch {
	case err != nil || slices.Contains(names, d.Cluster):
		return nil, err
	case len(names) > 0 && !force:
		return names, nil // without a row, which the next start would find
	}
	limited, cancel := context.WithTimeout(ctx, membersTimeout)
	defer cancel()
	_, err = d.DB.Writer().ExecContext(limited, `INSERT INTO cluster_nodes (cluster, node, registrations, active) VALUES ($1, $2, 0, 0)
		ON CONFLICT (cluster, node) DO NOTHING`, d.Cluster, node)
	if err != nil {
		return nil, fmt.Errorf("note the name of the cluster: %w", err)
	}
	if force {
		return nil, nil
	}
	names, err = d.clusters(ctx) // another node may have claimed a name at the same time
	others = slices.DeleteFunc(names, func(x string) bool { return x == d.Cluster })
	if err == nil && len(others) == 0 {
		return nil, nil
	}
	limited, cancel = context.WithTimeout(context.WithoutCancel(ctx), membersTimeout)
	defer cancel()
	_, failed := d.DB.Writer().ExecContext(limited, `DELETE FROM cluster_nodes WHERE cluster = $1 AND node = $2 AND registrations = 0`, d.Cluster, node)
	return others, errors.Join(err, failed)
}

// Unregister implements Members.
func (d DatabaseMembers) Unregister(ctx context.Context, m cluster.Member) error {
	ctx, cancel := context.WithTimeout(ctx, membersTimeout)
	defer cancel()
	_, err := d.DB.Writer().ExecContext(ctx, `UPDATE cluster_nodes SET active = 0 WHERE cluster = $1 AND node = $2 AND registrations = $3`,
		d.Cluster, m.Name, int64(m.Number))
	if err != nil {
		return fmt.Errorf("remove a node of the cluster: %w", err)
	}
	return nil
}
