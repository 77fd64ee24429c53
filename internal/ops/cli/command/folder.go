package command

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/ruedahq/rueda/gateway"
)

// ExplainFolder adds the next step to an error about a folder that cannot be created or written or
// that another gateway uses. setting is the option that chooses the folder. Other errors are
// returned unchanged, as are errors about paths outside folder, unless folder is "".
func ExplainFolder(err error, folder, setting string) error {
	var path *fs.PathError
	switch {
	case errors.Is(err, gateway.ErrJournalInUse):
		return Fail(ExitError, err, "Stop that gateway, or choose another folder ("+setting+").")
	case !errors.As(err, &path) || !related(folder, path.Path):
		return err
	case errors.Is(err, syscall.ENOSPC):
		return Fail(ExitError, err, "Free disk space, or choose a folder on another disk ("+setting+").")
	case path.Op == "mkdir", errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
		return Fail(ExitError, err, "Choose a folder that this user can create and write ("+setting+").")
	}
	return err
}

// related reports whether a path is in a folder or is one of its parents.
func related(folder, path string) bool {
	up := ".." + string(filepath.Separator)
	in, err := filepath.Rel(folder, path)
	if folder == "" || err == nil && in != ".." && !strings.HasPrefix(in, up) {
		return true
	}
	out, err := filepath.Rel(path, folder)
	return err == nil && out != ".." && !strings.HasPrefix(out, up)
}
