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

// adminTokenFile is named by the example rueda.toml.
const adminTokenFile = "admin.token"

// Write writes an example of a configuration into a folder that is there, with a new token for its administrator, and
// returns the paths of its files, that of rueda.toml first. It replaces no file.
func Write(folder string) ([]string, error) {
	var written []string
	for _, name := range []string{"rueda.toml", "markets.toml", "instruments.toml"} {
		text, err := templates.ReadFile("templates/" + name)
		if err != nil {
			return written, err
		}
		path := filepath.Join(folder, name)
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
		return fmt.Errorf("%s is there already and stays as it is", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
