// Package openapitest checks the requests and answers of tests against the OpenAPI documents that
// the gateway serves. A route, status, header, reason, media type, parameter or member that the
// document does not describe is an error.
package openapitest

import (
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/internal/api/schema/schematest"
)

// Checker checks exchanges against an OpenAPI document. It is safe for concurrent use.
type Checker struct {
	validator *schematest.Validator
	paths     map[string]any
	outside   []any
	pages     []any
}

// New returns a Checker for a document.
func New(document []byte) (*Checker, error) {
	v, err := schematest.Compile(document, schematest.Draft2020)
	if err != nil {
		return nil, err
	}
	c := &Checker{validator: v}
	c.paths, _ = object(v.Document(), "paths").(map[string]any)
	c.outside, _ = object(v.Document(), "x-outside-operations").([]any)
	c.pages, _ = object(v.Document(), "x-pages").([]any)
	if len(c.paths) == 0 || len(c.outside) == 0 {
		return nil, fmt.Errorf("the document has %d paths and %d answers outside of them", len(c.paths), len(c.outside))
	}
	return c, nil
}

// Exchange is a request with its answer.
type Exchange struct {
	Method        string
	Path, Query   string // the path as it was sent, and what follows the question mark
	RequestHeader http.Header
	RequestBody   []byte

	Status int
	Header http.Header
	Body   []byte // without a content coding; nil: not known
}

// object follows names from value through the members of objects and the items of arrays, whose
// names are indexes. It returns nil if a step is missing.
func object(value any, names ...string) any {
	for _, name := range names {
		switch v := value.(type) {
		case map[string]any:
			value = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// pointer returns the JSON pointer that follows names from the root of the document.
func pointer(names ...string) string {
	p := "#"
	for _, name := range names {
		p += "/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	}
	return p
}

// Check returns an error that says what the document does not describe, or nil. It checks the
// request only if the gateway accepted it.
func (c *Checker) Check(x *Exchange) error {
	if x.Method == http.MethodOptions && x.Status == http.StatusNoContent {
		return nil // a preflight
	}
	path := c.find(x.Path)
	method := strings.ToLower(x.Method)
	if x.Method == http.MethodHead {
		method = "get"
	}
	operation, ok := object(c.paths, path, method).(map[string]any)
	if !ok && c.isPage(x) {
		return nil
	}
	if !ok {
		return c.checkOutside(x)
	}
	if x.Status < http.StatusBadRequest && x.Status != http.StatusNotModified {
		if err := c.checkRequest(x, operation, []string{"paths", path, method}); err != nil {
			return fmt.Errorf("request: %w", err)
		}
	}
	at := []string{"paths", path, method, "responses", strconv.Itoa(x.Status)}
	answer, at := c.resolve(object(operation, "responses", strconv.Itoa(x.Status)), at)
	if answer == nil {
		return fmt.Errorf("status %d of %s %s is not described: %.300s", x.Status, x.Method, path, x.Body)
	}
	return c.checkAnswer(x, answer, at, object(operation, "x-reasons", strconv.Itoa(x.Status)))
}

// find returns the path in the document that matches the path of a request, or "" if there is none.
func (c *Checker) find(sent string) string {
	if c.paths[sent] != nil {
		return sent
	}
	parts := strings.Split(sent, "/")
	for known := range c.paths {
		pattern := strings.Split(known, "/")
		if len(pattern) != len(parts) {
			continue
		}
		if matches(pattern, parts) {
			return known
		}
	}
	return ""
}

// isPage reports whether the answer is a web page or a file of a page, which the document lists
// without describing it.
func (c *Checker) isPage(x *Exchange) bool {
	if x.Status >= http.StatusBadRequest || x.Method != http.MethodGet && x.Method != http.MethodHead {
		return false
	}
	return slices.ContainsFunc(c.pages, func(page any) bool {
		path, _ := page.(string)
		return path == x.Path || len(path) > 1 && strings.HasSuffix(path, "/") && strings.HasPrefix(x.Path, path)
	})
}

// matches reports whether the segments of a path match a pattern of the same length. {id} matches
// any segment that is not empty.
func matches(pattern, parts []string) bool {
	for i, part := range parts {
		if pattern[i] != part && (pattern[i] != "{id}" || part == "") {
			return false
		}
	}
	return true
}

// resolve returns value as an object, together with its place in the document. at is the place of
// value. If value is a reference, resolve returns the object and place that it refers to.
func (c *Checker) resolve(value any, at []string) (map[string]any, []string) {
	m, _ := value.(map[string]any)
	ref, ok := m["$ref"].(string)
	if !ok {
		return m, at
	}
	at = strings.Split(strings.TrimPrefix(ref, "#/"), "/")
	m, _ = object(c.validator.Document(), at...).(map[string]any)
	return m, at
}

// checkOutside checks an exchange whose request belongs to no operation.
func (c *Checker) checkOutside(x *Exchange) error {
	var first error
	for i := range c.outside {
		entry := c.outside[i]
		if fmt.Sprint(object(entry, "status")) != strconv.Itoa(x.Status) {
			continue
		}
		answer, at := c.resolve(object(entry, "response"), nil)
		err := c.checkAnswer(x, answer, at, object(entry, "x-reasons"))
		if err == nil {
			return nil
		}
		first = err
	}
	if first == nil {
		return fmt.Errorf("no operation is described for %s %s, answered with %d: %.300s", x.Method, x.Path, x.Status, x.Body)
	}
	return first
}

// ofHTTP reports whether a header belongs to HTTP itself, so that documents do not describe it.
func ofHTTP(name string) bool {
	switch name {
	case "Connection", "Content-Length", "Content-Type", "Date", "Transfer-Encoding", "Trailer":
		return true
	}
	return false
}

// checkAnswer checks the headers and the body of an answer against its description, which is at the
// place at. words lists the reasons that an error may have.
func (c *Checker) checkAnswer(x *Exchange, answer map[string]any, at []string, words any) error {
	known := map[string]any{}
	for _, headers := range []any{answer["headers"], object(c.validator.Document(), "x-common-headers")} {
		list, _ := headers.(map[string]any)
		maps.Copy(known, list)
	}
	for name, values := range x.Header {
		if ofHTTP(name) {
			continue
		}
		described := ""
		for k := range known {
			if strings.EqualFold(k, name) {
				described = k
			}
		}
		if described == "" {
			return fmt.Errorf("header %s of status %d is not described", name, x.Status)
		}
		if err := c.validateText([]string{"components", "headers", described, "schema"}, values[0]); err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
	}
	if x.Method == http.MethodHead || len(x.Body) == 0 {
		return nil
	}
	media, _, err := mime.ParseMediaType(x.Header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("media type %q: %w", x.Header.Get("Content-Type"), err)
	}
	if object(answer, "content", media) == nil {
		return fmt.Errorf("media type %s of status %d is not described", media, x.Status)
	}
	if media != "application/json" {
		return nil
	}
	body, err := schematest.Parse(x.Body)
	if err != nil {
		return fmt.Errorf("not JSON: %w: %.300s", err, x.Body)
	}
	if err := c.validator.ValidateParsed(pointer(append(at, "content", media, "schema")...), body); err != nil {
		return fmt.Errorf("%w: %.600s", err, x.Body)
	}
	return checkReason(x.Status, body, words)
}

// checkReason returns an error if the body of an error has a reason that is not in described.
func checkReason(status int, body, described any) error {
	if status < http.StatusBadRequest {
		return nil
	}
	words, _ := described.([]any)
	word := object(body, "reason")
	if word == nil {
		word = object(body, "error", "reason")
	}
	if !slices.Contains(words, word) {
		return fmt.Errorf("reason %v is not described; described are %v", word, words)
	}
	return nil
}

// checkRequest checks the query, headers and body of a request that the gateway accepted.
func (c *Checker) checkRequest(x *Exchange, operation map[string]any, at []string) error {
	query, err := url.ParseQuery(x.Query)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	parameters, _ := operation["parameters"].([]any)
	for i := range parameters {
		p, where := c.resolve(parameters[i], append(slices.Clone(at), "parameters", strconv.Itoa(i)))
		name, _ := p["name"].(string)
		required, _ := p["required"].(bool)
		if in, _ := p["in"].(string); in != "query" {
			continue
		}
		seen[name] = true
		values, given := query[name]
		if !given && required {
			return fmt.Errorf("required parameter %s is missing", name)
		}
		if !given || values[0] == "" && p["allowEmptyValue"] == true {
			continue
		}
		if err := c.validateText(append(where, "schema"), values[0]); err != nil {
			return fmt.Errorf("parameter %s: %w", name, err)
		}
	}
	for name := range query {
		if !seen[name] && operation["x-ignores-query"] != true {
			return fmt.Errorf("parameter %s is not described", name)
		}
	}
	return c.checkBody(x, operation, at)
}

// checkBody checks the body of a request that the gateway accepted.
func (c *Checker) checkBody(x *Exchange, operation map[string]any, at []string) error {
	if operation["requestBody"] == nil || x.RequestBody == nil {
		return nil // bodies of other requests are ignored
	}
	media, _, err := mime.ParseMediaType(x.RequestHeader.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("media type: %w", err)
	}
	if object(operation, "requestBody", "content", media) == nil {
		return fmt.Errorf("media type %s is not described", media)
	}
	var body any
	if media == "application/json" {
		if body, err = schematest.Parse(x.RequestBody); err != nil {
			return err
		}
	} else {
		form, err := url.ParseQuery(string(x.RequestBody))
		if err != nil {
			return err
		}
		fields := map[string]any{}
		for name := range form {
			fields[name] = form.Get(name)
		}
		body = fields
	}
	return c.validator.ValidateParsed(pointer(append(slices.Clone(at), "requestBody", "content", media, "schema")...), body)
}

// validateText checks a text, such as a query parameter, against the schema at a place in the
// document. It first converts the text to the type of the schema.
func (c *Checker) validateText(at []string, text string) error {
	s, at := c.resolve(object(c.validator.Document(), at...), at)
	var value any = text
	switch s["type"] {
	case "integer", "number", "boolean":
		parsed, err := schematest.Parse([]byte(text))
		if err != nil {
			return fmt.Errorf("%q is not of type %v", text, s["type"])
		}
		value = parsed
	case "array":
		items := []any{}
		for item := range strings.SplitSeq(text, ",") {
			items = append(items, item)
		}
		value = items
	}
	return c.validator.ValidateParsed(pointer(at...), value)
}

// String describes the exchange for error messages of tests.
func (x *Exchange) String() string {
	return fmt.Sprintf("%s %s?%s %.200s: status %d", x.Method, x.Path, x.Query, x.RequestBody, x.Status)
}
