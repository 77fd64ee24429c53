package docsite

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"

	"github.com/ruedahq/rueda/internal/api/openapi"
	"github.com/ruedahq/rueda/internal/api/schema"
)

// route describes an operation of an OpenAPI document.
type route struct {
	ID, Method, Path, Tag, Summary string
	Description                    string
	Admin                          bool     // served on the administrator's listener
	Token                          bool     // needs a token
	Scopes                         []string // that it always needs
	Upgrade                        bool     // a WebSocket handshake
	Params                         []param
	Media                          string // of the body; "": none
	Fields                         []field
	Sample                         string // of the body
	Answers                        []answerView
	Errors                         []errorGroup
}

// param is a parameter of the path, the query or the header of a request.
type param struct {
	Name, In string
	Type     string
	Required bool
	Text     string
	Facts    []fact
	Choices  []string // all values, if there are few
	Example  string   // "": left out of the example request
}

// answerView describes a successful answer in one media type.
type answerView struct {
	Status, Text, Media string
	Fields              []field
	Example             string
}

// errorGroup lists the reasons of the errors with a status.
type errorGroup struct {
	Status string
	Words  []string
}

// Live reports whether readers can send the request from the page of the route.
func (r *route) Live() bool { return !r.Admin && !r.Upgrade && !r.ofPages() }

// ofPages reports whether the route is only for web pages of the gateway, which send a header of
// their own.
func (r *route) ofPages() bool { return strings.HasPrefix(r.Path, "/console/") }

// Stream reports whether the route answers with a stream that has no end.
func (r *route) Stream() bool { return r.Path == "/market/stream" }

// File reports whether the route answers with a file to download.
func (r *route) File() bool { return r.Path == "/market/export" }

// readRoutes returns the operations of an OpenAPI document in its order. admin is copied to each
// route.
func readRoutes(d *document, admin bool) (list []*route) {
	for _, at := range object(d.root, "paths") {
		methods, _ := at.Value.(schema.Map)
		for _, m := range methods {
			o, _ := m.Value.(schema.Map)
			list = append(list, readRoute(d, strings.ToUpper(m.Name), at.Name, o, admin))
		}
	}
	return list
}

func readRoute(d *document, method, path string, o schema.Map, admin bool) *route {
	r := &route{
		ID: words(o, "operationId"), Method: method, Path: path, Summary: words(o, "summary"), Description: words(o, "description"),
		Admin: admin, Upgrade: path == openapi.StreamPath,
	}
	if tags := texts(items(o, "tags")); len(tags) > 0 {
		r.Tag = tags[0]
	}
	for _, s := range items(o, "security") {
		schemes, _ := s.(schema.Map)
		for _, scheme := range schemes {
			r.Token = true
			list, _ := scheme.Value.([]any)
			for _, scope := range texts(list) {
				if !slices.Contains(r.Scopes, scope) {
					r.Scopes = append(r.Scopes, scope)
				}
			}
		}
	}
	for _, p := range items(o, "parameters") {
		m, _ := d.follow(p)
		r.Params = append(r.Params, readParam(d, m))
	}
	for _, body := range object(o, "requestBody", "content") {
		content, _ := body.Value.(schema.Map)
		r.Media, r.Fields = body.Name, d.fields(content.Get("schema"))
		r.Sample = sampleBody(body.Name, d.sample(content.Get("schema"), 0))
		if text := firstExample(content); text != "" {
			r.Sample = text
		}
		if path == "/oauth/token" { // which members it needs depends on the grant
			r.Sample = "grant_type=password&username=demo&password=demo"
		}
	}
	for _, a := range object(o, "responses") {
		if answer, _ := d.follow(a.Value); a.Name < "300" {
			r.Answers = append(r.Answers, readAnswer(d, a.Name, answer)...)
		}
	}
	for _, e := range object(o, "x-reasons") {
		list, _ := e.Value.([]any)
		r.Errors = append(r.Errors, errorGroup{e.Name, texts(list)})
	}
	return r
}

func readParam(d *document, m schema.Map) param {
	inner, component := d.follow(m.Get("schema"))
	p := param{Name: words(m, "name"), In: words(m, "in"), Required: m.Get("required") == true, Type: d.kind(inner, component),
		Text: words(m, "description"), Facts: facts(inner)}
	if p.Text == "" {
		p.Text = words(inner, "description")
	}
	if list := texts(items(inner, "enum")); len(list) <= 12 {
		p.Choices = list
	}
	if p.Required {
		value := d.named(p.Name, m.Get("schema"), 0)
		if list, ok := value.([]any); ok {
			p.Example = strings.Join(texts(list), ",")
		} else {
			p.Example = fmt.Sprint(value)
		}
	}
	if p.In == "query" && p.Name == "trades" {
		p.Example = exampleInstrument // a stream without identifiers has nothing
	}
	return p
}

// sampleBody encodes an example value as a body: as a form for openapi.Form, and otherwise as JSON.
func sampleBody(media string, value any) string {
	if media == openapi.Form {
		form := url.Values{}
		m, _ := value.(schema.Map)
		for _, member := range m {
			form.Set(member.Name, fmt.Sprint(member.Value))
		}
		return form.Encode()
	}
	return compact(value)
}

// compact returns value as JSON on one line, or "" if it cannot be encoded.
func compact(value any) string {
	text, err := schema.Encode(value)
	if err != nil {
		return ""
	}
	return string(text)
}

// firstExample returns the first example of a media type object as JSON, or "" if there is none.
func firstExample(content schema.Map) string {
	for _, e := range object(content, "examples") {
		example, _ := e.Value.(schema.Map)
		return compact(example.Get("value"))
	}
	return ""
}

func readAnswer(d *document, status string, answer schema.Map) []answerView {
	base := answerView{Status: status, Text: words(answer, "description")}
	var list []answerView
	for _, c := range object(answer, "content") {
		content, _ := c.Value.(schema.Map)
		view := base
		view.Media, view.Fields, view.Example = c.Name, d.fields(content.Get("schema")), pretty(firstExample(content))
		list = append(list, view)
	}
	if len(list) == 0 {
		return []answerView{base}
	}
	return list
}

// pretty returns a JSON text with indentation. It returns any other text unchanged.
func pretty(text string) string {
	if text == "" || !json.Valid([]byte(text)) {
		return text
	}
	return strings.TrimSuffix(string(schema.Indent([]byte(text))), "\n")
}

// Address returns the path and query of the example request.
func (r *route) Address() string {
	path := r.Path
	var query []string
	for _, p := range r.Params {
		switch {
		case p.In == "path":
			path = strings.Replace(path, "{"+p.Name+"}", url.PathEscape(pathExample(r)), 1)
		case p.In == "query" && p.Example != "":
			query = append(query, url.QueryEscape(p.Name)+"="+strings.ReplaceAll(url.QueryEscape(p.Example), "%2C", ","))
		}
	}
	if len(query) > 0 {
		path += "?" + strings.Join(query, "&")
	}
	return path
}

// pathExample returns the example value for the parameter in the route's path.
func pathExample(r *route) string {
	if strings.HasPrefix(r.Path, "/docs/reasons/") {
		return "token_expired"
	}
	return "ID"
}

// routeView is the data for the template of a route's page.
type routeView struct {
	*route
	Programs []program
}

// tagGroup is a group of routes with the same tag.
type tagGroup struct {
	Tag    string
	Routes []*route
}

// byTag groups the public routes, or those for administrators if admin is true, by tag. Groups and
// routes keep their order.
func byTag(routes []*route, admin bool) (list []tagGroup) {
	for _, r := range routes {
		if r.Admin != admin {
			continue
		}
		at := slices.IndexFunc(list, func(g tagGroup) bool { return g.Tag == r.Tag })
		if at < 0 {
			at = len(list)
			list = append(list, tagGroup{Tag: r.Tag})
		}
		list[at].Routes = append(list[at].Routes, r)
	}
	return list
}

// route renders the page of the operation with this id, or the list of all routes if id is empty.
// The error is errNoPage for an unknown id.
func (s *Site) route(at place, id string) ([]byte, error) {
	c, err := s.parts().contract()
	if err != nil {
		return nil, err
	}
	if id == "" && at.name == "api" {
		f := s.frame(at, "")
		f.Title = f.T("REST routes")
		return s.finish(f, "routes", struct{ Public, Admin []tagGroup }{byTag(c.routes, false), byTag(c.routes, true)})
	}
	i := slices.IndexFunc(c.routes, func(r *route) bool { return r.ID == id })
	if i < 0 {
		return nil, errNoPage
	}
	r := c.routes[i]
	f := s.frame(at, r.Summary)
	for _, g := range byTag(c.routes, r.Admin) {
		menu := group{Title: g.Tag}
		for _, o := range g.Routes {
			menu.Links = append(menu.Links, link{Path: place{at.lang, "api/" + o.ID}.path(), Text: o.Method + " " + o.Path, Lang: "en"})
		}
		f.Menu = append(f.Menu, menu)
	}
	f.Menu = slices.Concat(f.Menu[:1], f.Menu[len(f.Menu)-len(byTag(c.routes, r.Admin)):])
	programs, err := s.programs(r)
	if err != nil {
		return nil, err
	}
	return s.finish(f, "route", routeView{r, programs})
}

// code returns a program as HTML, and marks the example origin and token, so that a script can
// replace them with the reader's own.
func code(text string) template.HTML {
	text = template.HTMLEscapeString(text)
	text = strings.NewReplacer(
		exampleToken, `<span class="fill" data-fill="token">`+exampleToken+`</span>`,
		exampleOrigin, `<span class="fill" data-fill="origin">`+exampleOrigin+`</span>`,
		strings.Replace(exampleOrigin, "http", "ws", 1), `<span class="fill" data-fill="socket">`+strings.Replace(exampleOrigin, "http", "ws", 1)+`</span>`,
	).Replace(text)
	return template.HTML(text) //nolint:gosec // it is escaped above
}
