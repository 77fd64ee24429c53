package openapi

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/api/schema"
)

// Version is the version of the contract of REST, which docs/versioning.md explains.
const Version = "1.0.0"

// PublicDocument returns the document of the API for clients, as compact JSON.
func PublicDocument() ([]byte, error) {
	return Document("Rueda", "Tokens, accounts and market data of a broker, for clients."+conventions, Public(), Pages()...)
}

// AdminDocument returns the document of the API for administrators, as compact JSON.
func AdminDocument() ([]byte, error) {
	return Document("Rueda, administration", "Tokens and logins of users, for administrators."+conventions, Admin(), AdminPages()...)
}

const conventions = `

An answer is an object with success and data, or with success and error. Clients branch on error.reason. They ignore members that they do not know, and treat a reason that they do not know by its status.

A request that is not HTTP is answered with 400 and plain text, without an X-Request-Id.

HEAD is served wherever GET is, with the same headers and no body. OPTIONS is served for preflight requests of browsers. x-outside-operations lists the answers to requests that belong to no operation, such as an unknown path or another method, and x-pages the paths of web pages. x-reasons lists the reasons that the errors of an operation may have, by status, and x-common-headers the headers of every answer that concern browsers.`

// Document returns the OpenAPI document of the operations as compact JSON. pages are the paths of
// web pages, which the document lists without describing them. The error names schemas that do not
// exist although the document refers to them.
func Document(title, description string, operations []Operation, pages ...string) ([]byte, error) {
	paths := schema.Map{}
	for i := range operations {
		o := &operations[i]
		at := slices.IndexFunc(paths, func(m schema.Member) bool { return m.Name == o.Path })
		if at < 0 {
			at = len(paths)
			paths = paths.With(o.Path, schema.Map{})
		}
		item, _ := paths[at].Value.(schema.Map)
		paths[at].Value = item.With(strings.ToLower(o.Method), operation(o))
	}
	answers, outside := responseComponents(operations)
	used, missing := schema.Reachable(components(), []any{paths, answers})
	if len(missing) > 0 {
		return nil, fmt.Errorf("components %v do not exist", missing)
	}
	return schema.Encode(schema.Map{}.
		With("openapi", "3.1.0").
		With("info", schema.Map{}.With("title", title).With("version", Version).With("description", description).
			With("license", schema.Map{}.With("name", "Apache 2.0").With("identifier", "Apache-2.0"))).
		With("servers", []schema.Map{schema.Map{}.With("url", "/").With("description", "The gateway that serves this document.")}).
		With("tags", tags(operations)).
		With("paths", paths).
		With("components", schema.Map{}.
			With("securitySchemes", securitySchemes(operations)).
			With("parameters", parameterComponents()).
			With("headers", headerComponents(usedHeaders(operations))).
			With("responses", answers).
			With("schemas", schema.Components(used))).
		With("x-common-headers", headers(browserHeaders())).
		With("x-outside-operations", outside).
		With("x-pages", append([]string{}, pages...)))
}

func tags(operations []Operation) (list []schema.Map) {
	descriptions := map[string]string{
		tagTokens: "Logins, their renewal and their end, and what users change themselves.", tagOAuth: "The same for OAuth libraries.",
		tagAccounts: "Accounts of the user.", tagMarket: "Instruments, and market data now.", tagHistory: "Past market data.",
		tagStream: "Market data in real time.", tagHealth: "For load balancers and supervisors.", tagDocuments: "Documents about this API.", tagConsole: "The session of the web page for users.",
		tagAdmin: "Tokens and logins of any user.",
	}
	var names []string
	for i := range operations {
		if tag := operations[i].Tag; !slices.Contains(names, tag) {
			names = append(names, tag)
			list = append(list, schema.Map{}.With("name", tag).With("description", descriptions[tag]))
		}
	}
	return list
}

// Names of the security schemes.
const (
	loginScheme  = "login"
	bearerScheme = "bearer"
	adminScheme  = "administrator"
)

func securitySchemes(operations []Operation) schema.Map {
	m := schema.Map{}
	for i := range operations {
		switch o := &operations[i]; {
		case o.Needs == Operator && m.Get(adminScheme) == nil:
			m = m.With(adminScheme, schema.Map{}.With("type", "http").With("scheme", "bearer").With("description", "A token of admin.token_file."))
		case o.Needs != Operator && o.Needs != Anyone && m.Get(loginScheme) == nil:
			scopes := schema.Map{}
			for _, s := range Scopes() {
				scopes = scopes.With(s, scopeText(s))
			}
			flow := schema.Map{}.With("tokenUrl", "/oauth/token").With("refreshUrl", "/oauth/token").With("scopes", scopes)
			m = m.With(loginScheme, schema.Map{}.With("type", "oauth2").With("description", "A login by RFC 6749. Users have all their scopes.").
				With("flows", schema.Map{}.With("password", flow))).
				With(bearerScheme, schema.Map{}.With("type", "http").With("scheme", "bearer").With("bearerFormat", "JWT").
					With("description", "The access_token of POST /auth/token."))
		}
	}
	return m
}

// Scopes returns the scopes of users in the order of the documents.
func Scopes() []string {
	return []string{broker.ScopeAccounts, broker.ScopeRead, broker.ScopeDepth, broker.ScopeWildcard, broker.ScopeHistory, broker.ScopeAdmin}
}

func scopeText(scope string) string {
	switch scope {
	case broker.ScopeAccounts:
		return "Read the own accounts."
	case broker.ScopeRead:
		return "Read market data."
	case broker.ScopeDepth:
		return "Read order books."
	case broker.ScopeWildcard:
		return "Subscribe to all instruments at once."
	case broker.ScopeHistory:
		return "Read past market data."
	}
	return "Request faults of the market, on a development gateway."
}

func security(o *Operation) any {
	one := func(scheme string, scopes ...string) schema.Map {
		return schema.Map{}.With(scheme, append([]string{}, scopes...))
	}
	switch {
	case o.Upgrade:
		return []schema.Map{{}, one(bearerScheme)}
	case o.Needs == Anyone:
		return []schema.Map{}
	case o.Needs == Operator:
		return []schema.Map{one(adminScheme)}
	case o.Needs == AnyUser:
		return []schema.Map{one(loginScheme), one(bearerScheme)}
	}
	return []schema.Map{one(loginScheme, o.Needs), one(bearerScheme, o.Needs)}
}

// operation returns the operation object of OpenAPI for o.
func operation(o *Operation) schema.Map {
	description := o.Description
	if len(o.Also) > 0 {
		description = strings.TrimSpace(description + " Some requests need more scopes: " + strings.Join(o.Also, ", ") + ".")
	}
	if o.Role != "" {
		description = strings.TrimSpace(description + " It needs the role " + o.Role + ".")
	}
	m := schema.Map{}.With("operationId", o.ID).With("tags", []string{o.Tag}).With("summary", o.Summary).WithText("description", description).
		With("security", security(o)).With("parameters", parameters(o))
	if o.Lax {
		m = m.With("x-ignores-query", true)
	}
	if o.Body != nil {
		content := schema.Map{}.With("schema", o.Body.Schema)
		if o.Body.Example != "" {
			content = withExample(content, o.Body.Example)
		}
		m = m.With("requestBody", schema.Map{}.With("required", true).With("content", schema.Map{}.With(o.Body.Media, content)))
	}
	return m.With("responses", responses(o)).With("x-reasons", reasonsByStatus(o))
}

func parameters(o *Operation) []schema.Map {
	list := []schema.Map{}
	if o.Segment != nil {
		list = append(list, parameter("path", &Parameter{Name: "id", Required: true, Schema: o.Segment}))
	}
	for i := range o.Query {
		list = append(list, parameter("query", &o.Query[i]))
	}
	for i := range o.Header {
		list = append(list, parameter("header", &o.Header[i]))
	}
	list = append(list, schema.Map{}.With("$ref", "#/components/parameters/RequestID"))
	if o.Answer.Tagged {
		list = append(list, schema.Map{}.With("$ref", "#/components/parameters/IfNoneMatch"))
	}
	return list
}

// parameter returns the parameter object of OpenAPI for p. in is "path", "query" or "header".
func parameter(in string, p *Parameter) schema.Map {
	m := schema.Map{}.With("name", p.Name).With("in", in)
	if text, ok := p.Schema.Get("description").(string); ok {
		m = m.With("description", text)
	}
	if p.Required {
		m = m.With("required", true)
	}
	if p.Empty && !p.Required {
		m = m.With("allowEmptyValue", true)
	}
	if p.List {
		m = m.With("style", "form").With("explode", false)
	}
	return m.With("schema", p.Schema)
}

func parameterComponents() schema.Map {
	return schema.Map{}.
		With("RequestID", parameter("header", &Parameter{Name: "X-Request-Id",
			Schema: schema.String("Id of the request for the log and the answer: 1 to 64 letters, digits, dots, dashes and underscores.")})).
		With("IfNoneMatch", parameter("header", &Parameter{Name: "If-None-Match", Schema: schema.String("Entity tags that the client has.")}))
}

// responses returns the responses object of OpenAPI for o: the successful answer, 304 if the answer
// has an entity tag, and the errors.
func responses(o *Operation) schema.Map {
	m := schema.Map{}.With(strconv.Itoa(successStatus(o)), success(o))
	if o.Answer.Tagged {
		m = m.With("304", responseRef(notModified))
	}
	for _, f := range faults(o) {
		m = m.With(strconv.Itoa(f.status), responseRef(f.name(o)))
	}
	return m
}

func successStatus(o *Operation) int {
	if o.Upgrade {
		return http.StatusSwitchingProtocols
	}
	return http.StatusOK
}

func success(o *Operation) schema.Map {
	m := schema.Map{}.With("description", o.Answer.Description).With("headers", headers(answerHeaders(o)))
	content := schema.Map{}
	if data := o.Answer.Data; data != nil {
		content = content.With(JSON, withExample(schema.Map{}.With("schema", schema.Object("", schema.Required("success", schema.True("")), schema.Required("data", data))), o.ID))
	}
	if o.Answer.Flat != nil {
		content = content.With(JSON, withExample(schema.Map{}.With("schema", o.Answer.Flat), o.ID))
	}
	for _, media := range o.Offers {
		if s := o.Answer.Text[media]; s != nil {
			content = content.With(media, schema.Map{}.With("schema", s))
		}
	}
	if len(content) == 0 {
		return m
	}
	return m.With("content", content)
}
