package asyncapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/api/asyncapi/asyncapitest"
	"github.com/ruedahq/rueda/internal/api/schema"
	"github.com/ruedahq/rueda/wire"
)

// resolve returns the schema that a reference stands for.
func resolve(s *schema.Schema) *schema.Schema {
	if to, ok := s.Get("$ref").(string); ok {
		return component(to[strings.LastIndexByte(to, '/')+1:])
	}
	return s
}

// TestOneStructDecodesAll checks that one struct can decode every message of the server: a name has
// one JSON type in all of them, except id, and no two names of a message differ in case alone.
func TestOneStructDecodesAll(t *testing.T) {
	types := map[string]string{}
	server, _ := asyncapitest.Sides()
	for _, n := range server {
		folded := map[string]string{}
		for _, f := range n.Schema.Fields() {
			if f.Name == "id" {
				continue
			}
			kind := fmt.Sprint(resolve(f.Schema).Get("type"))
			if kind == "integer" {
				kind = "number"
			}
			if before := types[f.Name]; before != "" && before != kind {
				t.Errorf("%s: %s is a %s, and a %s elsewhere", n.Name, f.Name, kind, before)
			}
			types[f.Name] = kind
			if other := folded[strings.ToLower(f.Name)]; other != "" {
				t.Errorf("%s: %s and %s", n.Name, f.Name, other)
			}
			folded[strings.ToLower(f.Name)] = f.Name
		}
	}
}

// TestMsgpackTypes checks that a member is a decimal in MessagePack exactly if its schema is one of
// prices, sizes and sums of them.
func TestMsgpackTypes(t *testing.T) {
	isDecimal := func(s *schema.Schema) bool { return resolve(s).Get("type") == "number" }
	const extension = 0xd4 // fixext 1, for a decimal of one digit
	numbers := 0
	server, _ := asyncapitest.Sides()
	for _, n := range server {
		for _, f := range n.Schema.Fields() {
			s, value := resolve(f.Schema), "1"
			want := isDecimal(s)
			if s.Get("type") == "array" && resolve(s.Get("items").(*schema.Schema)).Get("prefixItems") != nil {
				value, want = "[[1,2,3]]", true // a book level
			} else if kind := s.Get("type"); kind != "number" && kind != "integer" {
				continue
			}
			numbers++
			packed := wire.AppendMsgpack(nil, []byte(fmt.Sprintf(`{%q:%s}`, f.Name, value)))
			if got := slices.Contains(packed, extension); got != want {
				t.Errorf("%s: %s is a decimal in MessagePack: %v, in its schema: %v", n.Name, f.Name, got, want)
			}
		}
	}
	if numbers < 40 {
		t.Errorf("%d numbers", numbers)
	}
}
