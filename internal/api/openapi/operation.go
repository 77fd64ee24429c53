// Package openapi defines the operations of REST, and generates two OpenAPI 3.1 documents from
// them: one for clients and one for administrators. Package rest takes its routes and checks of
// requests from the same operations, so that the documents describe what the gateway serves.
package openapi

import (
	"github.com/ruedahq/rueda/internal/api/schema"
	"github.com/ruedahq/rueda/wire"
)

// Media types of answers and bodies.
const (
	JSON    = "application/json"
	Lines   = "application/x-ndjson"
	CSV     = "text/csv"
	Events  = "text/event-stream"
	Form    = "application/x-www-form-urlencoded"
	Parquet = "application/vnd.apache.parquet"
	HTML    = "text/html"
	Text    = "text/plain"
)

// Values of Operation.Needs, besides the scopes of package broker.
const (
	Anyone   = ""              // no token; the Authorization header is ignored
	AnyUser  = "token"         // a token of any user
	Operator = "administrator" // the administrator's token
)

// Operation describes a method of a path: its requests, its answers and what it requires.
type Operation struct {
	ID          string // unique; generated clients name their functions after it
	Method      string
	Path        string // a segment {id} stands for any one segment
	Tag         string
	Summary     string
	Description string

	Needs string   // Anyone, AnyUser, Operator or a scope
	Also  []string // scopes that some of its requests need too
	Role  string   // of Operator: read, operate or identity

	Segment *schema.Schema // of {id}
	Query   []Parameter
	Lax     bool        // parameters that Query does not have are ignored
	Header  []Parameter // of the request, besides those of every route
	Body    *Body

	Answer  Answer
	Reasons []wire.Reason // of its errors, besides those of every route like it
	Failed  string        // form of its errors: ErrorForm or OAuthForm
	Offers  []string      // media types of its answers, the default one first; nil: only JSON

	Limit      int  // requests a minute from an address, if no token is required; 0: none, or its own
	ByToken    bool // requests with a token that the gateway minted count by it, not by address
	Probe      bool // requested all the time by machines
	Compressed bool // compressed if the client accepts it: never if an answer has secrets
	Upgrade    bool // a handshake, which package socket answers
}

// Parameter describes a query parameter or a request header.
type Parameter struct {
	Name     string
	Schema   *schema.Schema // with the description
	Required bool
	Empty    bool // may be empty: a filter, the cursor of a first page, or it has an error of its own
	List     bool // several values with commas between them
}

// Body describes the body of a request.
type Body struct {
	Media   string
	Schema  *schema.Schema
	Example string // name of a golden file; "": none
}

// Answer describes the successful answer of an operation.
type Answer struct {
	Description string
	Data        *schema.Schema            // in the envelope
	Flat        *schema.Schema            // without an envelope
	Text        map[string]*schema.Schema // of media types other than JSON
	Header      []string                  // besides those of every answer: names of headerTable
	Tagged      bool                      // it has an ETag, and If-None-Match is answered with 304
	Bare        bool                      // it has no JSON form
}

// OAuth reports whether the errors of an operation have the form of RFC 6749.
func (o *Operation) OAuth() bool { return o.Failed == OAuthForm }

// Values of Operation.Failed, which are names of schemas. ErrorForm stands for the schema "Error".
const (
	ErrorForm = ""
	OAuthForm = "GrantError"
)

// Names returns the names of the query parameters, never nil.
func (o *Operation) Names() []string {
	names := []string{}
	for i := range o.Query {
		names = append(names, o.Query[i].Name)
	}
	return names
}

// MayBeEmpty reports whether the query parameter with a name may have an empty value. It returns
// false for an unknown name.
func (o *Operation) MayBeEmpty(name string) bool {
	for i := range o.Query {
		if o.Query[i].Name == name {
			return o.Query[i].Empty
		}
	}
	return false
}

// Limits for routes without a token, in requests per minute from one address. Revocation has a
// lower limit because it reads tokens of any user from the store, while reads use only memory.
// Package auth limits logins, because it knows which attempts failed.
const (
	revokesPerMinute = 120
	changesPerMinute = 120 // of passwords and second factors
	readsPerMinute   = 600
)
