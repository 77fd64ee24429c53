package openapi

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/internal/api/reason"
	"github.com/ruedahq/rueda/internal/api/schema"
	"github.com/ruedahq/rueda/wire"
)

// fault is an error status with the reasons that errors with this status may have.
type fault struct {
	status int
	words  []string
}

// Reasons returns the reasons of all errors that an operation may answer with. Besides o.Reasons,
// these are the reasons that follow from the token, the limit and the body of the operation.
func Reasons(o *Operation) []wire.Reason {
	if o.Upgrade {
		return []wire.Reason{
			wire.InvalidRequest, wire.InvalidToken, wire.TokenExpired, wire.TokenRevoked, wire.Forbidden, wire.AddressNotAllowed,
			reason.UpgradeRequired, wire.RateLimited, wire.HeadersTooBig, wire.Internal, wire.NotImplemented, wire.Unavailable,
		}
	}
	list := append([]wire.Reason{
		wire.InvalidRequest, wire.Forbidden, wire.NotAcceptable, wire.URITooLong, wire.HeadersTooBig, wire.Internal, wire.NotImplemented,
	}, o.Reasons...)
	if !o.Lax {
		list = append(list, wire.BadField)
	}
	switch o.Needs {
	case Anyone:
		if o.Limit > 0 {
			list = append(list, wire.RateLimited)
		}
	case Operator:
		list = append(list, wire.InvalidToken, wire.RateLimited)
	default:
		list = append(list, wire.InvalidToken, wire.TokenExpired, wire.TokenRevoked, wire.AddressNotAllowed, wire.RateLimited, wire.Unavailable)
	}
	if o.Body != nil {
		list = append(list, wire.BodyTooBig, wire.UnsupportedMedia, wire.Timeout)
		if o.Body.Media == JSON {
			list = append(list, wire.BadJSON)
		}
	}
	return list
}

// faults returns the errors of an operation, one for each status, by rising status.
func faults(o *Operation) []fault { return byStatus(Reasons(o), o.OAuth()) }

// byStatus groups reasons by the status of their errors. If oauth is true, it uses the statuses of
// RFC 6749.
func byStatus(words []wire.Reason, oauth bool) []fault {
	var list []fault
	for _, e := range reason.All() {
		if !slices.Contains(words, e.Word) {
			continue
		}
		status := e.Status
		if oauth {
			_, status = e.Word.GrantError(status)
		}
		i := slices.IndexFunc(list, func(f fault) bool { return f.status == status })
		if i < 0 {
			i = len(list)
			list = append(list, fault{status: status})
		}
		list[i].words = append(list[i].words, string(e.Word))
	}
	slices.SortFunc(list, func(a, b fault) int { return a.status - b.status })
	return list
}

// errorSchema returns the schema of the errors of an operation with a status. An OAuth operation
// also has errors in the general form, because a request that cannot be parsed belongs to no
// operation.
func errorSchema(o *Operation, status int) *schema.Schema {
	if !o.OAuth() {
		return schema.Ref("Error")
	}
	switch status {
	case http.StatusBadRequest:
		return schema.OneOf("", schema.Ref(OAuthForm), schema.Ref("Error"))
	case http.StatusRequestURITooLong, http.StatusRequestHeaderFieldsTooLarge, http.StatusNotImplemented:
		return schema.Ref("Error")
	}
	return schema.Ref(OAuthForm)
}

// name returns the name of the response component for the fault, such as NotFound. Names for OAuth
// operations end in "OAuth".
func (f *fault) name(o *Operation) string {
	name := strings.ReplaceAll(http.StatusText(f.status), " ", "")
	if o.OAuth() {
		name += "OAuth"
	}
	return name
}

// response returns the response object of OpenAPI for the fault.
func (f *fault) response(o *Operation) schema.Map {
	return schema.Map{}.With("description", http.StatusText(f.status)+". The operation lists the reasons in x-reasons.").
		With("headers", headers(faultHeaders(o, f.status))).
		With("content", schema.Map{}.With(JSON, schema.Map{}.With("schema", errorSchema(o, f.status))))
}

// responseRef returns a reference to the response component with a name.
func responseRef(name string) schema.Map {
	return schema.Map{}.With("$ref", "#/components/responses/"+name)
}

// reasonsByStatus returns the value of x-reasons: the reasons of an operation's errors by status.
func reasonsByStatus(o *Operation) schema.Map {
	m := schema.Map{}
	for _, f := range faults(o) {
		m = m.With(strconv.Itoa(f.status), f.words)
	}
	return m
}

// notModified is the name of the response component for the status 304.
const notModified = "NotModified"

// responseComponents returns the response components that the operations refer to. outside
// describes the answers to requests that belong to no operation.
func responseComponents(operations []Operation) (components schema.Map, outside []schema.Map) {
	cached := slices.Concat(commonHeaders(), rateHeaders(), []string{"ETag", "Content-Encoding", "Link"})
	const lost = "Rueda-Lost" // only documents with history have it
	if slices.ContainsFunc(operations, func(o Operation) bool { return slices.Contains(o.Answer.Header, lost) }) {
		cached = append(cached, lost)
	}
	components = schema.Map{}.With(notModified, schema.Map{}.With("description", "The client has this version.").With("headers", headers(cached)))
	add := func(o *Operation, list []fault) {
		for _, f := range list {
			if name := f.name(o); components.Get(name) == nil {
				components = components.With(name, f.response(o))
			}
		}
	}
	for i := range operations {
		add(&operations[i], faults(&operations[i]))
	}
	for _, o := range []*Operation{{}, {Failed: OAuthForm}} { // the latter: another method of a path of OAuth
		words := outsideReasons()
		if o.OAuth() {
			words = []wire.Reason{wire.Forbidden, wire.MethodNotAllowed}
		}
		list := byStatus(words, o.OAuth())
		add(o, list)
		for _, f := range list {
			outside = append(outside, schema.Map{}.With("status", f.status).With("x-reasons", f.words).With("response", responseRef(f.name(o))))
		}
	}
	return components, outside
}

// answerHeaders returns the names of the headers of an operation's successful answer.
func answerHeaders(o *Operation) []string {
	if o.Upgrade {
		return []string{"Upgrade", "Sec-WebSocket-Accept", "Sec-WebSocket-Protocol", "Sec-WebSocket-Extensions"}
	}
	names := slices.Concat(commonHeaders(), o.Answer.Header)
	if o.Limit > 0 || o.Needs != Anyone && o.Needs != Operator {
		names = append(names, rateHeaders()...)
	}
	if o.Answer.Tagged {
		names = append(names, "ETag")
	}
	if o.Compressed {
		names = append(names, "Content-Encoding")
	}
	return names
}

// faultHeaders returns the names of the headers of an operation's errors with a status.
func faultHeaders(o *Operation, status int) []string {
	names := slices.Concat(commonHeaders(), rateHeaders())
	if o.OAuth() {
		names = append(names, "Pragma")
	}
	switch status {
	case http.StatusUnauthorized:
		names = append(names, "WWW-Authenticate")
	case http.StatusMethodNotAllowed:
		names = append(names, "Allow")
	case http.StatusUpgradeRequired:
		names = append(names, "Upgrade", "Sec-WebSocket-Version")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		names = append(names, "Retry-After")
	}
	return names
}

// outsideReasons returns the reasons of errors for requests that belong to no operation.
func outsideReasons() []wire.Reason {
	return []wire.Reason{
		wire.InvalidRequest, wire.Forbidden, wire.NotFound, wire.MethodNotAllowed, wire.URITooLong, wire.RateLimited,
		wire.HeadersTooBig, wire.Internal, wire.NotImplemented,
	}
}

// usedHeaders returns the names of the headers of all answers to operations. A name may occur
// several times.
func usedHeaders(operations []Operation) []string {
	names := browserHeaders()
	for i := range operations {
		o := &operations[i]
		names = append(names, answerHeaders(o)...)
		for _, f := range faults(o) {
			names = append(names, faultHeaders(o, f.status)...)
		}
	}
	return append(names, "Allow", "Retry-After", "Link", "Content-Encoding", "ETag")
}
