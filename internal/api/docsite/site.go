package docsite

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/ruedahq/rueda/internal/api/downloads"
)

// Options configures a Site. The zero Options serve the pages below /docs alone.
type Options struct {
	Version string // of the gateway, shown on each page; "": not shown
	Console bool   // pages link to /console/, and readers stay signed in with /console/session

	// Clients returns the packages of the clients, for the page at /client/. If nil, there is no
	// such page.
	Clients func() ([]downloads.File, error)
	// Origin returns the origin of the gateway as the client of a request reaches it, for the
	// commands on the page about the clients. nil or "" means that the origin is unknown.
	Origin func(r *http.Request) string
}

// Site serves the pages below /docs, and the page about the clients at /client/.
type Site struct {
	options Options
	folders []folder
	parts   func() *parts // made at the first request

	mu    sync.Mutex
	pages map[string]*page // by path; only of paths that exist
}

// page is a rendered page or file, compressed with gzip.
type page struct {
	media  string
	etag   string
	gzip   []byte
	origin string // that the page names; "": none
}

// Policy is the Content-Security-Policy of the pages.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

const (
	mediaHTML     = "text/html; charset=utf-8"
	mediaMarkdown = "text/markdown; charset=utf-8"
	mediaText     = "text/plain; charset=utf-8"
)

// New returns a Site. It does no work: the Site reads documents and renders pages at the first
// request for them.
func New(o Options) *Site {
	s := &Site{options: o, folders: folders(), pages: map[string]*page{}}
	s.parts = sync.OnceValue(s.makeParts)
	return s
}

// errNoPage means that a path does not exist.
var errNoPage = errors.New("there is no such page")

// ServeHTTP answers GET and HEAD for /docs and the paths below it, and for /client, /client/ and
// /client/es. It sets the header fields that depend on the page; the caller has set those of every
// answer. A path that does not exist gets 404. The answer contains a page only if the Accept header
// names text/html.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "Method not allowed", http.StatusMethodNotAllowed)
		return
	}
	if to, ok := redirect(r.URL.Path); ok {
		http.Redirect(w, r, to, http.StatusPermanentRedirect)
		return
	}
	at := locate(r.URL.Path)
	status := http.StatusOK
	var p *page
	var err error
	if at.name == "search" {
		p, err = s.search(at, r.URL.Query().Get("q"))
	} else {
		p, err = s.page(at, s.originOf(at, r))
	}
	if errors.Is(err, errNoPage) {
		status = http.StatusNotFound
		if !strings.Contains(r.Header.Get("Accept"), "text/html") {
			w.WriteHeader(status)
			return
		}
		p, err = s.missing(at)
	}
	if err != nil {
		http.Error(w, "The page cannot be made", http.StatusInternalServerError)
		return
	}
	p.write(w, r, status)
}

// moved returns the new locations of documents that were merged into other documents, by their old
// names.
func moved() map[string]string {
	return map[string]string{
		"audit": "keys#audit-log", "backup": "operations#backup-and-restore", "database": "install#the-database",
		"entitlements": "users#entitlements", "throttling": "identity#login-rate-limits", "upgrading": "install#upgrading",
	}
}

// redirect returns the new path for a document that has moved, and for a path that ends in a slash.
// ok is false for any other path.
func redirect(path string) (to string, ok bool) {
	name, below := strings.CutPrefix(path, "/docs/")
	base := "/docs/"
	if rest, ok := strings.CutPrefix(name, "es/"); ok {
		name, base = rest, "/docs/es/"
	}
	if to := moved()[strings.TrimSuffix(name, ".md")]; below && to != "" {
		return base + to, true
	}
	if below && strings.HasSuffix(path, "/") {
		return strings.TrimSuffix("/docs/"+strings.Trim(path[len("/docs"):], "/"), "/"), true
	}
	return "", false
}

// place identifies a page by its language and its name.
type place struct {
	lang string // en or es
	name string // below /docs or /docs/es, or clientsName; "": the first page
}

func locate(path string) place {
	switch path {
	case "/client", clientsName:
		return place{"en", clientsName}
	case "/client/es":
		return place{"es", clientsName}
	}
	name := strings.TrimPrefix(strings.TrimPrefix(path, "/docs"), "/")
	if name == "es" {
		return place{"es", ""}
	}
	if rest, ok := strings.CutPrefix(name, "es/"); ok {
		return place{"es", rest}
	}
	return place{"en", name}
}

// path returns the path of the page at a place.
func (p place) path() string {
	base := "/docs"
	if p.lang == "es" {
		base = "/docs/es"
	}
	switch p.name {
	case "":
		return base
	case clientsName:
		return strings.Replace(base, "/docs", "/client", 1) + map[string]string{"en": "/"}[p.lang]
	}
	return base + "/" + p.name
}

// in returns the same place in another language.
func (p place) in(lang string) place { return place{lang, p.name} }

// originOf returns the origin of the gateway for a page that contains it, and "" for all other
// pages.
func (s *Site) originOf(at place, r *http.Request) string {
	if at.name != clientsName || s.options.Origin == nil {
		return ""
	}
	return s.options.Origin(r)
}

// page returns the page at a place, and renders it if it is not kept yet. It keeps one page for
// each place and renders it again for another origin.
func (s *Site) page(at place, origin string) (*page, error) {
	key := at.path()
	s.mu.Lock()
	p := s.pages[key]
	s.mu.Unlock()
	if p != nil && p.origin == origin {
		return p, nil
	}
	media, body, err := s.render(at, origin)
	if err != nil {
		return nil, err
	}
	if p, err = newPage(media, body); err != nil {
		return nil, err
	}
	p.origin = origin
	s.mu.Lock()
	s.pages[key] = p
	s.mu.Unlock()
	return p, nil
}

// render renders the page at a place. The error is errNoPage if there is none.
func (s *Site) render(at place, origin string) (media string, body []byte, err error) {
	first, rest, deep := strings.Cut(at.name, "/")
	switch {
	case first == "static" && deep && at.lang == "en":
		return s.static(rest)
	case first == "api":
		body, err = s.route(at, rest)
	case first == "stream":
		body, err = s.channel(at, rest)
	case first == "reasons":
		body, err = s.reason(at, rest)
	case at.name == clientsName:
		body, err = s.clients(at, origin)
	case picture(at.name) != "" && at.lang == "en":
		body, err = s.read(at.name)
		return picture(at.name), body, err
	case path.Ext(at.name) == ".md":
		body, err = s.read(s.source(at.lang, pageName(at.name)))
		return mediaMarkdown, body, err
	case at.name == "llms.txt":
		return mediaText, s.list(at), nil
	default:
		body, err = s.document(at)
	}
	return mediaHTML, body, err
}

// picture returns the media type of a picture by its extension, or "" if name is not a picture.
func picture(name string) string {
	switch path.Ext(name) {
	case ".svg":
		return "image/svg+xml"
	case ".webp":
		return "image/webp"
	}
	return ""
}

func newPage(media string, body []byte) (*page, error) {
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(body); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	etag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	return &page{media: media, etag: etag, gzip: bytes.Clone(packed.Bytes())}, nil
}

// write answers a request with the page, or with 304 if the client has it.
func (p *page) write(w http.ResponseWriter, r *http.Request, status int) {
	h := w.Header()
	h.Set("Content-Security-Policy", Policy)
	h.Set("Cache-Control", "no-cache")
	h.Set("Etag", p.etag)
	h.Add("Vary", "Accept-Encoding")
	if status == http.StatusOK && matches(r.Header.Get("If-None-Match"), p.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", p.media)
	if acceptsGzip(r.Header.Get("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		w.WriteHeader(status)
		_, _ = w.Write(p.gzip) // the client may be gone; net/http sends no body for HEAD
		return
	}
	w.WriteHeader(status)
	if z, err := gzip.NewReader(bytes.NewReader(p.gzip)); err == nil {
		_, _ = io.Copy(w, z)
	}
}

// matches reports whether an If-None-Match header contains etag or "*".
func matches(field, etag string) bool {
	for tag := range strings.SplitSeq(field, ",") {
		if tag = strings.TrimSpace(tag); tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
			return true
		}
	}
	return false
}

// acceptsGzip reports whether an Accept-Encoding header contains gzip with a weight above 0.
func acceptsGzip(field string) bool {
	for coding := range strings.SplitSeq(field, ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if strings.TrimSpace(name) == "gzip" {
			q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64)
			return err != nil || q > 0
		}
	}
	return false
}
