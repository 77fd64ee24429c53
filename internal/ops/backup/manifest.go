package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// Names in the folder of a backup.
const (
	manifestName  = "manifest.json"
	journalFolder = "journal"
)

// manifestVersion is the version of the form of a backup. An older program refuses a newer one.
const manifestVersion = 1

// maxManifest bounds the size of a manifest.
const maxManifest = 64 << 20

// Manifest describes a backup.
type Manifest struct {
	Version      int       `json:"version"`
	Program      string    `json:"program"` // version of the program that made it
	Created      time.Time `json:"created"` // everything answered before is in the backup
	Installation string    `json:"installation"`
	Database     string    `json:"database"` // sqlite, or postgres: not in the backup
	Journal      *Journal  `json:"journal,omitempty"`
	Files        []File    `json:"files"`
}

// Journal describes the journal of a backup.
type Journal struct {
	Epoch    string `json:"epoch"`    // the newest one
	Position uint64 `json:"position"` // of its last row
	Days     int    `json:"days"`
	Damage   int    `json:"damage,omitempty"` // parts that could not be read in the original either
}

// File is a file of a backup.
type File struct {
	Name   string `json:"name"` // with slashes
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Errors about the content of a backup.
var (
	// ErrIncomplete means that a folder has no manifest, which is written last.
	ErrIncomplete = errors.New("not a complete backup: it has no manifest.json")
	// ErrNewer means that a newer program made a backup.
	ErrNewer = errors.New("a newer version of the program made this backup")
	// ErrDamaged means that a file has changed since it was written.
	ErrDamaged = errors.New("the backup is damaged")
)

// Bytes returns the size of all files.
func (m *Manifest) Bytes() (n int64) {
	for _, f := range m.Files {
		n += f.Bytes
	}
	return n
}

// Read reads the manifest of a backup. Check compares the files with it.
func Read(folder string) (*Manifest, error) {
	info, err := os.Stat(filepath.Join(folder, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", folder, ErrIncomplete)
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxManifest) {
		err = fmt.Errorf("%w: the manifest is too large, or no file", ErrDamaged)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(filepath.Join(folder, manifestName))
	}
	if err != nil {
		return nil, fmt.Errorf("read the manifest of %s: %w", folder, err)
	}
	var head struct{ Version int }
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("%s: %w: manifest: %w", folder, ErrDamaged, err)
	}
	if head.Version > manifestVersion {
		return nil, fmt.Errorf("%s: %w: version %d, and this program knows version %d", folder, ErrNewer, head.Version, manifestVersion)
	}
	m := &Manifest{}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(m); err != nil {
		return nil, fmt.Errorf("%s: %w: manifest: %w", folder, ErrDamaged, err)
	}
	seen := map[string]bool{}
	for _, f := range m.Files {
		if !validName(f.Name) || seen[f.Name] || f.Bytes < 0 {
			return nil, fmt.Errorf("%s: %w: the manifest names %q", folder, ErrDamaged, f.Name)
		}
		seen[f.Name] = true
	}
	return m, nil
}

// validName reports whether a file name is valid in a backup. No valid name leads outside the
// folder of a restore.
func validName(name string) bool {
	if strings.ContainsAny(name, "\\:\x00") || path.Clean(name) != name {
		return false
	}
	parts := strings.Split(name, "/")
	switch len(parts) {
	case 1:
		return name == "rueda.db" || name == "keys.json"
	case 3:
		_, err := time.Parse(time.DateOnly, parts[1])
		return parts[0] == journalFolder && err == nil && parts[2] != ".." && parts[2] != "."
	}
	return false
}

// Check compares all files of a backup with the manifest.
func (m *Manifest) Check(ctx context.Context, folder string) error {
	for _, f := range m.Files {
		if err := f.copyTo(ctx, folder, io.Discard); err != nil {
			return err
		}
	}
	return nil
}

// copyTo copies a file of the backup, and compares it with the manifest.
func (f *File) copyTo(ctx context.Context, folder string, to io.Writer) (err error) {
	name := filepath.Join(folder, filepath.FromSlash(f.Name))
	if info, err := os.Lstat(name); err == nil && (!info.Mode().IsRegular() || info.Size() != f.Bytes) {
		return fmt.Errorf("%s: %w: %s is not as it was written", folder, ErrDamaged, f.Name)
	}
	from, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w: %s is missing", folder, ErrDamaged, f.Name)
	}
	if err != nil {
		return fmt.Errorf("read a backup: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	sum, n, err := copyAll(ctx, to, from)
	if err != nil {
		return fmt.Errorf("copy %s: %w", f.Name, err)
	}
	if n != f.Bytes || sum != f.SHA256 {
		return fmt.Errorf("%s: %w: %s is not as it was written", folder, ErrDamaged, f.Name)
	}
	return nil
}

// copyAll copies from its current offset to its end and returns the SHA-256 of what it copied.
func copyAll(ctx context.Context, to io.Writer, from io.Reader) (sum string, n int64, err error) {
	hash := sha256.New()
	buf := make([]byte, 1<<20)
	for {
		if err := ctx.Err(); err != nil {
			return "", n, err
		}
		k, err := from.Read(buf)
		hash.Write(buf[:k])
		if _, err := to.Write(buf[:k]); err != nil {
			return "", n, err
		}
		n += int64(k)
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(hash.Sum(nil)), n, nil
		}
		if err != nil {
			return "", n, err
		}
	}
}
