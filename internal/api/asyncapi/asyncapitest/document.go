package asyncapitest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/ruedahq/rueda/internal/api/asyncapi"
	"github.com/ruedahq/rueda/internal/api/schema"
	"github.com/ruedahq/rueda/internal/api/schema/schematest"
)

// Document is a compiled AsyncAPI document.
type Document struct {
	schemas *schematest.Validator
	server  map[string][]string // components of messages that the server sends, by kind
	client  map[string][]string // components of messages that clients send
	reasons map[string]reason   // of Error messages
	closes  map[string]bool     // code and reason of close frames, the code alone below 4000
}

// reason is an item of the member x-reasons: a reason word with the code and retry of its Errors.
type reason struct {
	Reason string
	Code   int
	Retry  bool
	In     []string
}

// served returns the document that the gateway serves. It compiles the document at the first call.
var served = sync.OnceValues(func() (*Document, error) { return New(asyncapi.Document()) })

// New compiles an AsyncAPI document. Its schemas refuse members that they do not name.
func New(document []byte) (*Document, error) {
	schemas, err := schematest.Compile(document, schematest.Draft7)
	if err != nil {
		return nil, err
	}
	var doc outline
	if err := json.Unmarshal(document, &doc); err != nil {
		return nil, err
	}
	d := &Document{schemas: schemas, reasons: map[string]reason{}, closes: map[string]bool{}}
	if d.server, d.client, err = doc.directions(); err != nil {
		return nil, err
	}
	for _, r := range doc.Reasons {
		d.reasons[r.Reason] = r
	}
	for _, c := range doc.Channels.Stream.CloseCodes {
		d.closes[closeKey(c.Code, c.Reason)] = true
	}
	return d, nil
}

// reference is a reference to a message or schema.
type reference struct {
	Ref string `json:"$ref"`
}

func (r reference) name() string { return r.Ref[strings.LastIndexByte(r.Ref, '/')+1:] }

// outline holds the parts of a document that New reads: operations, messages, close codes and
// reasons.
type outline struct {
	Channels struct {
		Stream struct {
			CloseCodes []struct {
				Code   uint16
				Reason string
			} `json:"x-close-codes"`
		}
	}
	Operations map[string]struct {
		Action   string
		Messages []reference
		Reply    struct{ Messages []reference }
	}
	Components struct {
		Messages map[string]struct{ Payload reference }
		Schemas  map[string]struct {
			Properties struct{ Type, Action struct{ Const string } }
		}
	}
	Reasons []reason `json:"x-reasons"`
}

// directions returns the names of the schemas of the messages that the server and the client send,
// by kindOf. The error names a message that no operation sends or receives.
func (o *outline) directions() (server, client map[string][]string, err error) {
	server, client = map[string][]string{}, map[string][]string{}
	seen := map[string]bool{}
	add := func(to map[string][]string, messages []reference) {
		for _, m := range messages {
			component := o.Components.Messages[m.name()].Payload.name()
			p := o.Components.Schemas[component].Properties
			key := kindOf(p.Type.Const, p.Action.Const)
			if side := key + component; !seen[side] {
				seen[side], seen[m.name()] = true, true
				to[key] = append(to[key], component)
			}
		}
	}
	for _, operation := range o.Operations {
		if operation.Action == "receive" {
			add(client, operation.Messages)
			add(server, operation.Reply.Messages)
		} else {
			add(server, operation.Messages)
			add(client, operation.Reply.Messages)
		}
	}
	for name := range o.Components.Messages {
		if !seen[name] {
			return nil, nil, fmt.Errorf("no operation has the message %s", name)
		}
	}
	return server, client, nil
}

// schemaPrefix is the beginning of a JSON pointer to a schema in the document.
const schemaPrefix = "#/components/schemas/"

// Sides returns the schemas of the messages that the server sends, and those of the messages that
// clients send. Both lists are in the order of the document, and nil if it cannot be compiled.
func Sides() (server, client []schema.Named) {
	d, err := served()
	if err != nil {
		return nil, nil
	}
	has := func(side map[string][]string, name string) bool {
		for _, names := range side {
			if slices.Contains(names, name) {
				return true
			}
		}
		return false
	}
	for _, c := range asyncapi.Components() {
		if has(d.server, c.Name) {
			server = append(server, c)
		}
		if has(d.client, c.Name) {
			client = append(client, c)
		}
	}
	return server, client
}

// kindOf returns the key by which check finds the schemas of a message: its type and its action.
func kindOf(kind, action string) string { return kind + "/" + action }

// CheckServer checks a JSON message that the server sent.
func (d *Document) CheckServer(message []byte) error { return d.check(d.server, message) }

// CheckClient checks a JSON message that a client sends. Members with the value null count as
// absent.
func (d *Document) CheckClient(message []byte) error { return d.check(d.client, message) }

// Check checks a JSON message against the schema with the name component.
func (d *Document) Check(component string, message []byte) error {
	return d.schemas.Validate(schemaPrefix+component, message)
}

func (d *Document) check(side map[string][]string, message []byte) error {
	value, err := schematest.Parse(message)
	if err != nil {
		return err
	}
	object, ok := value.(map[string]any)
	if !ok {
		return errors.New("not an object")
	}
	kind, _ := object["type"].(string)
	action, _ := object["action"].(string)
	components := side[kindOf(kind, action)]
	if len(components) == 0 {
		return fmt.Errorf("no message has type %q and action %q", kind, action)
	}
	if action != "" {
		dropNull(object)
	}
	var failures []error
	for _, c := range components {
		err := d.schemas.ValidateParsed(schemaPrefix+c, value)
		if err == nil {
			return d.checkReason(kind, object)
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// dropNull removes the members with the value null from a request and from the objects in it.
func dropNull(object map[string]any) {
	for name, v := range object {
		if v == nil {
			delete(object, name)
		}
		if nested, ok := v.(map[string]any); ok {
			dropNull(nested)
		}
	}
}

// checkReason checks that the code and retry of a message of kind Error are those that the document
// states for its reason. It accepts messages of other kinds.
func (d *Document) checkReason(kind string, object map[string]any) error {
	if kind != "Error" {
		return nil
	}
	word, _ := object["reason"].(string)
	r := d.reasons[word]
	code, _ := object["code"].(json.Number)
	if retry, _ := object["retry"].(bool); code.String() != fmt.Sprint(r.Code) || retry != r.Retry {
		return fmt.Errorf("%s has code %s and retry %v, and the document %d and %v", word, code, retry, r.Code, r.Retry)
	}
	return nil
}

// ownClose is the close code that most clients send. The server repeats it without a reason.
const ownClose = 1000

// closeKey returns the key of a close frame in Document.closes. It leaves out the reason for codes
// below 4000, which RFC 6455 defines, because that reason is only text for people.
func closeKey(code uint16, reason string) string {
	if code < 4000 {
		return fmt.Sprint(code)
	}
	return fmt.Sprint(code, " ", reason)
}

// CheckClose returns an error if the document does not list this code and reason of a close frame
// from the server.
func (d *Document) CheckClose(code uint16, reason string) error {
	if !d.closes[closeKey(code, reason)] || code == ownClose && reason != "" {
		return fmt.Errorf("the document does not name the close code %d %s", code, reason)
	}
	return nil
}
