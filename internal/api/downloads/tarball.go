package downloads

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// tarball builds the package of the TypeScript client. Like npm pack, it puts all files into the
// folder package.
func tarball(files fs.FS) (File, error) {
	list, err := read(files, "package/", "package.json", "LICENSE", "README.md", "dist/*.js", "dist/*.d.ts")
	if err != nil {
		return File{}, err
	}
	var about struct{ Name, Version string }
	if err := json.Unmarshal(list[0].data, &about); err != nil {
		return File{}, fmt.Errorf("read package.json: %w", err)
	}
	name := strings.ReplaceAll(strings.TrimPrefix(about.Name, "@"), "/", "-") + "-" + about.Version + ".tgz"
	var out bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return File{}, err
	}
	t := tar.NewWriter(compressed)
	for _, e := range list {
		// npm pack gives all files this time.
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: e.name, Size: int64(len(e.data)), Mode: 0o644,
			ModTime: time.Date(1985, 10, 26, 8, 15, 0, 0, time.UTC), Format: tar.FormatUSTAR,
		}
		if err := t.WriteHeader(h); err != nil {
			return File{}, err
		}
		if _, err := t.Write(e.data); err != nil {
			return File{}, err
		}
	}
	err = errors.Join(t.Close(), compressed.Close())
	return File{For: NPM, Name: name, Media: "application/gzip", Data: out.Bytes()}, err
}
