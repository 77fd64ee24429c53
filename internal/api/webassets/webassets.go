// Package webassets serves the files of web pages from memory, with entity tags, compression, and a
// Content-Security-Policy that allows only scripts and styles of the same origin.
//
// A file is read and compressed at the first request for it, and then kept. New refuses a folder
// that is too large, which bounds the memory. A Files is safe for concurrent use.
package webassets

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// Policy is the default Content-Security-Policy. With it, a page can have no inline script or
// style, load nothing from other origins, and not be framed.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"font-src 'self'; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'"

// Limits of a folder: the number of its files and their total size. Files below minGzip bytes are
// not compressed.
const (
	maxFiles = 1000
	maxBytes = 32 << 20
	minGzip  = 512 // a smaller file fits a packet
)

// Index is the file that is served for the path of its folder.
const Index = "index.html"

// Options configures Files. Each field has a default.
type Options struct {
	Policy string // Content-Security-Policy; "": Policy
}

// Files serves the files of a folder. It implements http.Handler. The path of a request must be
// relative to the folder, as http.StripPrefix leaves it.
type Files struct {
	policy string
	files  map[string]func() (*file, error) // by path
}

// file is a file in memory with the headers of its answer.
type file struct {
	plain, packed       []byte // packed is nil if gzip saves nothing
	plainTag, packedTag string
	media, caching      string
}

// New returns a handler for the files in a folder and its subfolders. It leaves out names that
// begin with a dot. It returns an error for a file of an unknown type, for a folder beyond the
// limits, and for an empty folder.
func New(root fs.FS, o Options) (*Files, error) {
	f := &Files{policy: o.Policy, files: map[string]func() (*file, error){}}
	if f.policy == "" {
		f.policy = Policy
	}
	total := int64(0)
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != "." && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		media := mediaType(name)
		if media == "" {
			return fmt.Errorf("%s has no known type", name)
		}
		if total += info.Size(); total > maxBytes || len(f.files) == maxFiles {
			return fmt.Errorf("more than %d files, or than %d MiB", maxFiles, maxBytes>>20)
		}
		f.files[name] = sync.OnceValues(func() (*file, error) { return read(root, name, media) })
		return nil
	})
	if err == nil && len(f.files) == 0 {
		err = errors.New("no files")
	}
	if err != nil {
		return nil, fmt.Errorf("read the files of pages: %w", err)
	}
	return f, nil
}

// mediaType returns the media type of a file by its name, or "" if it is unknown.
func mediaType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js", ".mjs":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".json", ".map":
		return "application/json"
	case ".webmanifest":
		return "application/manifest+json"
	case ".txt", ".md":
		return "text/plain; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".png":
		return "image/png"
	case ".webp":
		return "image/webp"
	case ".ico":
		return "image/x-icon"
	case ".woff2":
		return "font/woff2"
	}
	if base := path.Base(name); base == "LICENSE" || base == "NOTICE" {
		return "text/plain; charset=utf-8"
	}
	return ""
}

// named matches a file name that contains a version, such as preact-11.2.0.js, or a hash. Browsers
// may keep such a file.
var named = regexp.MustCompile(`-\d+\.\d+\.\d+[.-]|[.-][0-9a-f]{8,64}\.`)

// Values of Cache-Control. With askAgain, browsers ask at each use whether the file has changed,
// and get 304 if not. With keep, they do not ask for a year.
const (
	askAgain = "no-cache"
	keep     = "public, max-age=31536000, immutable"
)

// read reads a file, and compresses it unless that saves too little.
func read(root fs.FS, name, media string) (*file, error) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	tag := base64.RawURLEncoding.EncodeToString(sum[:12])
	f := &file{plain: text, plainTag: `"` + tag + `"`, packedTag: `"` + tag + `-gzip"`, media: media, caching: askAgain}
	if named.MatchString(path.Base(name)) {
		f.caching = keep
	}
	if len(text) < minGzip {
		return f, nil
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err = w.Write(text); err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, err
	}
	if b.Len() < len(text)-len(text)/16 {
		f.packed = bytes.Clone(b.Bytes())
	}
	return f, nil
}

// ServeHTTP answers GET and HEAD requests for files. It answers 404 without a body for any other
// path, and 405 for any other method.
func (f *Files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" || strings.HasSuffix(name, "/") {
		name += Index
	}
	open := f.files[name]
	if open == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	found, err := open()
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	h := w.Header()
	SetSecurity(h, f.policy)
	h.Set("Cache-Control", found.caching)
	body, tag := found.plain, found.plainTag
	if found.packed != nil {
		h.Add("Vary", "Accept-Encoding")
		if acceptsGzip(r.Header.Values("Accept-Encoding")) {
			body, tag = found.packed, found.packedTag
		}
	}
	if matched := matching(r.Header.Values("If-None-Match"), found); matched != "" {
		h.Set("ETag", matched)
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if tag != found.plainTag {
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", tag)
	h.Set("Content-Type", found.media)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // the client may be gone
	}
}

// SetSecurity sets the security headers of an answer that is part of a page. Besides policy, they
// prevent that browsers guess the media type, that other sites frame or load the answer, and that
// links reveal the address of the page.
func SetSecurity(h http.Header, policy string) {
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY") // for browsers without frame-ancestors
}

// acceptsGzip reports whether the Accept-Encoding headers (RFC 9110, section 12.5.3) allow gzip.
func acceptsGzip(values []string) bool {
	for member := range strings.SplitSeq(strings.Join(values, ","), ",") {
		name, param, _ := strings.Cut(member, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		_, q, weighted := strings.Cut(param, "=")
		weight, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
		return !weighted || err == nil && weight > 0
	}
	return false
}

// matching returns the entity tag of f that the If-None-Match headers contain (RFC 9110, section
// 13.1.2), or "" if there is none. For "*" it returns the tag of the plain file.
func matching(values []string, f *file) string {
	for member := range strings.SplitSeq(strings.Join(values, ","), ",") {
		switch tag := strings.TrimPrefix(strings.TrimSpace(member), "W/"); tag {
		case f.plainTag, f.packedTag:
			return tag
		case "*":
			return f.plainTag
		}
	}
	return ""
}
