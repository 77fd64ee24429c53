package rest

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/api/asyncapi"
	"github.com/ruedahq/rueda/internal/api/openapi"
	"github.com/ruedahq/rueda/internal/api/reason"
	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/wire"
)

// documentAge is how long caches may keep documents. Documents change only with the version of the
// gateway.
const documentAge = time.Hour

// document is an OpenAPI or AsyncAPI document with its entity tag.
type document struct {
	text []byte
	etag string
}

// documents maps paths to functions that return the documents there.
type documents map[string]func() (document, error)

// once returns a function that calls build at its first call and then returns the same document.
func once(build func() ([]byte, error)) func() (document, error) {
	return sync.OnceValues(func() (document, error) {
		text, err := build()
		return document{text, api.EntityTag(text)}, err
	})
}

// streamDocument returns the AsyncAPI document. It has the signature that once needs.
func streamDocument() ([]byte, error) { return asyncapi.Document(), nil }

// document serves GET /openapi.json, GET /asyncapi.json and GET /admin/openapi.json.
func (h *Handler) document(q *request) (api.Result, error) {
	build := h.documents[q.Path]
	if build == nil {
		return api.Result{}, &wire.Fault{Reason: wire.NotFound}
	}
	d, err := build()
	if err != nil {
		return api.Result{}, err
	}
	return q.fixed(api.MediaJSON, d.text, d.etag), nil
}

// docPages is the path of the pages of the documentation, which also contain a page for each
// reason.
const docPages = "/docs/"

// reasons serves GET /docs/reasons, a page that lists all reason words. The documentation serves it
// if the gateway has one.
func (h *Handler) reasons(q *request) (api.Result, error) {
	if r := h.pages[docPages]; r != nil {
		return r.serve(q)
	}
	page := reason.Index()
	return q.fixed(openapi.HTML+"; charset=utf-8", page, api.EntityTag(page)), nil
}

// reason serves GET /docs/reasons/{word}, the page about a reason. Errors contain this address. The
// documentation serves the page if the gateway has one.
func (h *Handler) reason(q *request) (api.Result, error) {
	if r := h.pages[docPages]; r != nil {
		return r.serve(q)
	}
	e, ok := reason.Of(wire.Reason(q.segment))
	if !ok {
		return api.Result{}, &wire.Fault{Reason: wire.NotFound, Msg: "There is no such reason", Hint: "GET /docs/reasons lists them"}
	}
	page := reason.Page(e)
	return q.fixed(openapi.HTML+"; charset=utf-8", page, api.EntityTag(page)), nil
}

// fixed returns an answer that caches may share for documentAge, or 304 if the client has it.
func (q *request) fixed(media string, body []byte, etag string) api.Result {
	q.Out.Set("Cache-Control", "public, max-age="+strconv.Itoa(int(documentAge/time.Second)))
	q.Out.Set("Content-Type", media)
	return q.Tagged(etag, api.Result{Status: http.StatusOK, Raw: body})
}
