package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// errOtherCluster means that the folder of a node belongs to another cluster.
var errOtherCluster = errors.New("the folder of this node belongs to another cluster")

// checkName checks that the folder of a node belongs to a cluster. The first call writes the name.
func checkName(folder, cluster string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("make the folder of the node's state: %w", err)
	}
	path := filepath.Join(folder, "cluster")
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = replaceFile(path, []byte(cluster), true)
	case err == nil && string(text) != cluster:
		return fmt.Errorf("%w: %s belongs to %q, and the settings name %q. Correct the name, or use another folder for the journal", errOtherCluster, folder, text, cluster)
	}
	if err != nil {
		return fmt.Errorf("check the cluster of the node's folder: %w", err)
	}
	return nil
}
