package store

import (
	"context"
	"database/sql"
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
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	fail := func(err error) ([]Node, error) { return nil, fmt.Errorf("read the nodes of the cluster: %w", err) }
	rows, err := n.reader.QueryContext(ctx, `SELECT node, registrations FROM cluster_nodes WHERE cluster = $1 AND active = 1 ORDER BY node`, n.cluster)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = rows.Close() }() // rows.Err has its error
	for rows.Next() {
		var x Node
		if err := rows.Scan(&x.Name, &x.Registrations); err != nil {
			return fail(err)
		}
		list = append(list, x)
	}
	if err := rows.Err(); err != nil {
		return fail(err)
	}
	return list, nil
}

// Clusters returns the names of all clusters that have ever registered a node in the database.
func (n *Nodes) Clusters(ctx context.Context) (names []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	fail := func(err error) ([]string, error) { return nil, fmt.Errorf("read the names of the clusters: %w", err) }
	rows, err := n.reader.QueryContext(ctx, `SELECT DISTINCT cluster FROM cluster_nodes ORDER BY cluster`)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = rows.Close() }() // rows.Err has its error
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return fail(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		return fail(err)
	}
	return names, nil
}

// Register registers a node, and returns the number of its registrations with this one.
func (n *Nodes) Register(ctx context.Context, node string) (registrations uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	err = n.writer.QueryRowContext(ctx, `INSERT INTO cluster_nodes (cluster, node, registrations, active) VALUES ($1, $2, 1, 1)
		ON CONFLICT (cluster, node) DO UPDATE SET registrations = cluster_nodes.registrations + 1, active = 1
		RETURNING registrations`, n.cluster, node).Scan(&registrations)
	if err != nil {
		return 0, fmt.Errorf("register a node of the cluster: %w", err)
	}
	return registrations, nil
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
