package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrName means that the settings have the wrong name of a cluster.
var ErrName = errors.New("wrong name of the cluster")

// namePath returns the file with the name of the cluster of a node.
func namePath(folder string) string { return filepath.Join(folder, "cluster") }

// checkName checks that the folder of a node belongs to a cluster, or to none yet.
func checkName(folder, cluster string) error {
	text, err := os.ReadFile(namePath(folder))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("check the cluster of the node's folder: %w", err)
	case string(text) != cluster:
		return fmt.Errorf("%w: the folder %s belongs to %q, and the settings name %q. Correct the name. If the name was wrong until now, remove that folder; the journal stays", ErrName, folder, text, cluster)
	}
	return nil
}

// writeName notes that the folder of a node belongs to a cluster. A node calls it when it is
// connected to the log, so that a name which was corrected before is not in the folder.
func writeName(folder, cluster string) error {
	if _, err := os.Stat(namePath(folder)); err == nil {
		return nil
	}
	if err := replaceFile(namePath(folder), []byte(cluster), true); err != nil {
		return fmt.Errorf("note the cluster of the node's folder: %w", err)
	}
	return nil
}

// claimName notes the name of the cluster in the database. It refuses a new node that would begin a
// cluster although its database has only others: its name is probably wrong, and its feeds would
// take events that belong to the other cluster.
func claimName(ctx context.Context, p *Setup, members Members) error {
	if !p.isNew || p.settings.Role == roleEdge { // an edge begins no cluster
		return nil
	}
	others, err := members.Claim(ctx, p.log.Node, p.settings.New)
	if err != nil || len(others) == 0 {
		return err
	}
	return fmt.Errorf("%w: the database has the clusters %q, and not %q. Correct name in [cluster], or set new = true there to begin another cluster",
		ErrName, others, p.log.Cluster)
}
