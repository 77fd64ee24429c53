// Package downloads builds the packages of the clients and serves them: a wheel for pip and a
// tarball for npm. It builds them from embedded sources, without Python or npm. The bytes of a
// package depend only on the sources and the version of Go, because entries have a fixed order and
// a fixed time.
//
// # Concurrency
//
// A Server is safe for concurrent use. It builds the packages at the first request, and keeps them.
package downloads

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ruedahq/rueda/clients/python"
	"github.com/ruedahq/rueda/clients/typescript"
	"github.com/ruedahq/rueda/internal/api/webassets"
)

// Kind identifies the program that installs a package.
type Kind int

// Values of Kind, with the form of the package.
const (
	Pip Kind = iota // a wheel
	NPM             // a tarball
)

// File is a package of a client.
type File struct {
	For    Kind
	Name   string // such as rueda-0.2.0-py3-none-any.whl
	Media  string
	Data   []byte
	SHA256 string // in hexadecimal digits
}

// Files builds the wheel and the tarball, in this order.
func Files() ([]File, error) {
	forPip, err := wheel(python.Package())
	if err != nil {
		return nil, fmt.Errorf("make the wheel of the Python client: %w", err)
	}
	forNPM, err := tarball(typescript.Package())
	if err != nil {
		return nil, fmt.Errorf("make the tarball of the TypeScript client: %w", err)
	}
	files := []File{forPip, forNPM}
	for i := range files {
		sum := sha256.Sum256(files[i].Data)
		files[i].SHA256 = hex.EncodeToString(sum[:])
	}
	return files, nil
}

// Server serves the packages over HTTP.
type Server struct{ files func() ([]File, error) }

// NewServer returns a Server. It builds the packages only when they are needed.
func NewServer() *Server { return &Server{sync.OnceValues(Files)} }

// Files returns the packages, and builds them at the first call.
func (s *Server) Files() ([]File, error) { return s.files() }

// ServeHTTP answers GET and HEAD for the name of a package, and 404 without a body for any other
// path. The path of the request must be the name alone, as http.StripPrefix leaves it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	files, err := s.files()
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	for _, f := range files {
		if f.Name != strings.TrimPrefix(r.URL.Path, "/") {
			continue
		}
		h := w.Header()
		webassets.SetSecurity(h, webassets.Policy)
		h.Set("Cache-Control", "no-cache") // between releases, a name may get another content
		h.Set("Content-Type", f.Media)
		h.Set("ETag", `"`+f.SHA256+`"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.Data))
		return
	}
	w.WriteHeader(http.StatusNotFound)
}

// entry is a file inside a package.
type entry struct {
	name string
	data []byte
}

// read returns the files that match the patterns, with folder prepended to their names. They are in
// the order of the patterns, and for each pattern in the order of their names. It returns an error
// if a pattern matches no file.
func read(files fs.FS, folder string, patterns ...string) (list []entry, err error) {
	for _, pattern := range patterns {
		names, err := fs.Glob(files, pattern)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("there is no %s", pattern)
		}
		for _, name := range names {
			data, err := fs.ReadFile(files, name)
			if err != nil {
				return nil, err
			}
			list = append(list, entry{folder + name, data})
		}
	}
	return list, nil
}
