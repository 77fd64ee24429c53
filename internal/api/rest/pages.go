package rest

import (
	"errors"
	"net/http"
	"strings"

	"github.com/ruedahq/rueda/internal/api/openapi"
	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/api/rest/console"
	"github.com/ruedahq/rueda/internal/engine/web"
	"github.com/ruedahq/rueda/wire"
)

// pagesPerMinute limits how many pages and files of pages one address may request. A page loads up
// to fifty files, which browsers then keep.
const pagesPerMinute = 3000

// maxPage bounds the size of a page or file, in bytes.
const maxPage = 16 << 20

// maxFolders bounds how many slashes the path of a page may have.
const maxFolders = 12

// pages maps paths to the routes of web pages. A path that ends in a slash also covers all paths
// below it, except for "/".
type pages map[string]*route

// newPages returns routes that serve pages with the given handlers. An answer of a handler is
// collected in memory before it is sent. notFound returns the fault for a path that the handler
// does not have.
func newPages(handlers map[string]http.Handler, notFound func(path string) *wire.Fault) pages {
	p := pages{}
	for path, handler := range handlers {
		operation := &openapi.Operation{Method: http.MethodGet, Path: path, Lax: true, Limit: pagesPerMinute}
		p[path] = &route{Operation: operation, page: true, serve: func(q *request) (api.Result, error) {
			return servePageOf(q, handler, notFound)
		}}
	}
	return p
}

// find returns the route for a path, or nil if no page has the path. The longest match wins.
func (p pages) find(path string) []*route {
	if strings.Count(path, "/") > maxFolders {
		return nil
	}
	for end := len(path); end > 0; end = strings.LastIndexByte(path[:end-1], '/') + 1 {
		if r := p[path[:end]]; r != nil && (end == len(path) || end > 1) {
			return []*route{r}
		}
	}
	return nil
}

// servePageOf returns the answer of a page's handler. A client that requests "/" and prefers JSON
// gets the fault for an unknown path instead.
func servePageOf(q *request, handler http.Handler, notFound func(path string) *wire.Fault) (api.Result, error) {
	if q.URL.Path == "/" {
		q.Out.Add("Vary", "Accept")
		if api.Negotiate(q.Header.Values("Accept"), []string{openapi.HTML, api.MediaJSON}) == api.MediaJSON {
			return api.Result{}, notFound(q.URL.Path)
		}
	}
	w := &pageWriter{header: q.Out}
	handler.ServeHTTP(w, q.Request.Request)
	switch {
	case w.tooLarge:
		return api.Result{}, errors.New("a page is larger than 16 MiB")
	case len(w.body) == 0 && w.status == http.StatusNotFound:
		return api.Result{}, notFound(q.URL.Path)
	case len(w.body) == 0 && w.status >= http.StatusBadRequest:
		return api.Result{}, errors.New("a page cannot be read")
	case w.status == 0:
		w.status = http.StatusOK
	}
	return api.Result{Status: w.status, Raw: w.body}, nil
}

// pageWriter collects the answer of a page's handler in memory.
type pageWriter struct {
	header   http.Header
	status   int // 0: not written
	body     []byte
	tooLarge bool
}

// Header implements http.ResponseWriter.
func (w *pageWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *pageWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *pageWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if len(w.body)+len(b) > maxPage {
		w.tooLarge = true
		return 0, errors.New("the page is too large")
	}
	w.body = append(w.body, b...)
	return len(b), nil
}

// consoleRoutes returns the functions of the console's routes, by method and path. They answer
// not_found if the gateway has no console.
func consoleRoutes(h *Handler) map[string]serveFunc {
	if h.cfg.Console == nil {
		none := func(*request) (api.Result, error) { return api.Result{}, &wire.Fault{Reason: wire.NotFound} }
		return map[string]serveFunc{
			"GET /console/config": none, "POST /console/session": none, "POST /console/session/refresh": none, "DELETE /console/session": none,
		}
	}
	c := console.New(console.Config{Auth: h.cfg.Auth, Hosts: h.cfg.Hosts, Scheme: h.cfg.Scheme, Secure: overHTTPS(&h.cfg), Page: *h.cfg.Console})
	granted := func(grant string, serve func(*api.Request) (api.Result, error)) serveFunc {
		return func(q *request) (api.Result, error) {
			q.grant = grant
			return serve(&q.Request)
		}
	}
	return map[string]serveFunc{
		"GET /console/config":           part(c.Config),
		"POST /console/session":         granted(wire.GrantPassword, c.Begin),
		"POST /console/session/refresh": granted(wire.GrantRefresh, c.Refresh),
		"DELETE /console/session": func(q *request) (api.Result, error) {
			if err := h.spendLimit(q, c.LimitKey(&q.Request)); err != nil {
				return api.Result{}, err
			}
			return c.End(&q.Request)
		},
	}
}

// overHTTPS returns a function that reports whether browsers reach the gateway over HTTPS, directly
// or through a proxy.
func overHTTPS(cfg *Config) func() bool {
	return func() bool {
		return cfg.Secure != web.NoHTTPS || cfg.PublicURL != nil && strings.HasPrefix(cfg.PublicURL(), "https://")
	}
}
