package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// errOtherCluster means that the folder of a node belongs to another cluster.
var errOtherCluster = errors.New("the folder of this node belongs to another cluster")

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
		return fmt.Errorf("%w: %s belongs to %q, and the settings name %q. Correct the name, or use another folder for the journal", errOtherCluster, folder, text, cluster)
	}
	return nil
}

// writeName notes that the folder of a node belongs to a cluster. A node calls it when it is
// connected to the log: a wrong name that was corrected before leaves nothing behind.
func writeName(folder, cluster string) error {
	if _, err := os.Stat(namePath(folder)); err == nil {
		return nil
	}
	if err := replaceFile(namePath(folder), []byte(cluster), true); err != nil {
		return fmt.Errorf("note the cluster of the node's folder: %w", err)
	}
	return nil
}

// errUnknownCluster means that a new sequencer names a cluster that its database does not have.
var errUnknownCluster = errors.New("this database has another cluster")

// checkNew refuses a new node that would begin a cluster although its database has only others:
// its name is probably wrong, and its feeds would take events that belong to the other cluster.
func (h *Host) checkNew(ctx context.Context) error {
	p := h.cfg.Setup
	if !p.isNew || p.settings.New || p.settings.Role == roleEdge { // an edge begins no cluster
		return nil
	}
	names, err := h.cfg.Members.Clusters(ctx)
	if err != nil {
		return err
	}
	if len(names) == 0 || slices.Contains(names, p.log.Cluster) {
		return nil
	}
	return fmt.Errorf("%w: it has %q, and none that is named %q. Correct name in [cluster], or set new = true there to begin another cluster",
		errUnknownCluster, strings.Join(names, ", "), p.log.Cluster)
}
