package cli

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed templates/*.toml
var templates embed.FS

// copyTemplates writes the example files into a folder and returns their paths, that
// of rueda.toml first.
func copyTemplates(folder string) ([]string, error) {
	var written []string
	for _, name := range []string{"rueda.toml", "markets.toml", "instruments.toml"} {
		text, err := templates.ReadFile("templates/" + name)
		if err != nil {
			return written, err
		}
		path := filepath.Join(folder, name)
		if err := writeNew(path, text); err != nil {
			return written, err
		}
		written = append(written, path)
	}
	return written, nil
}

func writeNew(path string, text []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already and stays as it is", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
