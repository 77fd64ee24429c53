package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Nodes has the nodes of a cluster that may show rows to clients. They are in a table of the
// database that the nodes share.
type Nodes struct {
	cluster        string
	reader, writer *sql.DB
}

// Node is a registered node of a cluster.
type Node struct {
	Name          string
	Registrations uint64 // of this node, ever
}

// NodesOf returns the nodes of a cluster in a database.
func NodesOf(db interface {
	Reader() *sql.DB
	Writer() *sql.DB
}, cluster string) *Nodes {
	return &Nodes{cluster: cluster, reader: db.Reader(), writer: db.Writer()}
}

// nodesTimeout bounds an operation.
const nodesTimeout = 5 * time.Second

// List returns the registered nodes, by name.
func (n *Nodes) List(ctx context.Context) (list []Node, err error) {
	var x Node
	err = n.each(ctx, func() { list = append(list, x) }, []any{&x.Name, &x.Registrations},
		`SELECT node, registrations FROM cluster_nodes WHERE cluster = $1 AND active = 1 ORDER BY node`, n.cluster)
	return list, err
}

// Clusters returns the names of all clusters that have ever had a node in the database.
func (n *Nodes) Clusters(ctx context.Context) (names []string, err error) {
	name := ""
	err = n.each(ctx, func() { names = append(names, name) }, []any{&name}, `SELECT DISTINCT cluster FROM cluster_nodes ORDER BY cluster`)
	return names, err
}

// each calls row for each row of a query, which was scanned into dest.
func (n *Nodes) each(ctx context.Context, row func(), dest []any, query string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	rows, err := n.reader.QueryContext(ctx, query, args...)
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

// Register registers a node. It returns the number of its registrations with this one, and whether
// the node was not registered before.
func (n *Nodes) Register(ctx context.Context, node string) (registrations uint64, isNew bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	err = n.writer.QueryRowContext(ctx, `UPDATE cluster_nodes SET registrations = registrations + 1
		WHERE cluster = $1 AND node = $2 AND active = 1 RETURNING registrations`, n.cluster, node).Scan(&registrations)
	if errors.Is(err, sql.ErrNoRows) {
		isNew = true
		err = n.writer.QueryRowContext(ctx, `INSERT INTO cluster_nodes (cluster, node, registrations, active) VALUES ($1, $2, 1, 1)
			ON CONFLICT (cluster, node) DO UPDATE SET registrations = cluster_nodes.registrations + 1, active = 1
			RETURNING registrations`, n.cluster, node).Scan(&registrations)
	}
	if err != nil {
		return 0, false, fmt.Errorf("register a node of the cluster: %w", err)
	}
	return registrations, isNew, nil
}

// Claim notes that the database has a cluster of this name. It does not register the node.
func (n *Nodes) Claim(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	if _, err := n.writer.ExecContext(ctx, `INSERT INTO cluster_nodes (cluster, node, registrations, active) VALUES ($1, $2, 0, 0)
		ON CONFLICT (cluster, node) DO NOTHING`, n.cluster, node); err != nil {
		return fmt.Errorf("note the name of the cluster: %w", err)
	}
	return nil
}

// Unregister removes a node from those that are registered, unless it has registered again.
func (n *Nodes) Unregister(ctx context.Context, x Node) error {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	_, err := n.writer.ExecContext(ctx, `UPDATE cluster_nodes SET active = 0 WHERE cluster = $1 AND node = $2 AND registrations = $3`,
		n.cluster, x.Name, int64(x.Registrations))
	if err != nil {
		return fmt.Errorf("remove a node of the cluster: %w", err)
	}
	return nil
}
