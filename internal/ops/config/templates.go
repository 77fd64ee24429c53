package config

import (
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed templates/*.toml
var templates embed.FS

// adminTokenFile is a file that the example rueda.toml names.
const adminTokenFile = "admin.token"

// Write writes an example configuration into an existing folder, with a new administrator token,
// and returns the paths of its files, with rueda.toml first. That file has every key, or those that
// most gateways need if minimal is set. Write does not replace files.
func Write(folder string, minimal bool) ([]string, error) {
	main := "rueda.toml"
	if minimal {
		main = "minimal.toml"
	}
	var written []string
	for _, f := range [][2]string{{"rueda.toml", main}, {"markets.toml", "markets.toml"}, {"instruments.toml", "instruments.toml"}} {
		text, err := templates.ReadFile("templates/" + f[1])
		if err != nil {
			return written, err
		}
		path := filepath.Join(folder, f[0])
		if err := writeNew(path, text, 0o644); err != nil {
			return written, err
		}
		written = append(written, path)
	}
	path := filepath.Join(folder, adminTokenFile)
	if err := writeNew(path, []byte(rand.Text()+rand.Text()+"\n"), 0o600); err != nil {
		return written, err
	}
	return append(written, path), nil
}

func writeNew(path string, text []byte, mode fs.FileMode) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s already exists", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
