package host

import (
	"context"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/store"
)

// DatabaseMembers are Members in a database that the nodes share.
type DatabaseMembers struct{ Nodes *store.Nodes }

// List implements Members.
func (s DatabaseMembers) List(ctx context.Context) (list []cluster.Member, err error) {
	nodes, err := s.Nodes.List(ctx)
	for _, n := range nodes {
		list = append(list, cluster.Member{Name: n.Name, Number: n.Registrations})
	}
	return list, err
}

// Clusters implements Members.
func (s DatabaseMembers) Clusters(ctx context.Context) ([]string, error) {
	return s.Nodes.Clusters(ctx)
}

// Claim implements Members.
func (s DatabaseMembers) Claim(ctx context.Context, node string) error {
	return s.Nodes.Claim(ctx, node)
}

// Register implements Members.
func (s DatabaseMembers) Register(ctx context.Context, node string) (number uint64, isNew bool, err error) {
	return s.Nodes.Register(ctx, node)
}

// Unregister implements Members.
func (s DatabaseMembers) Unregister(ctx context.Context, m cluster.Member) error {
	return s.Nodes.Unregister(ctx, store.Node{Name: m.Name, Registrations: m.Number})
}
