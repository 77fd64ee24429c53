package schema

import (
	"slices"
	"strings"
	"testing"
)

// TestEncode checks the keywords of each kind of schema and their order.
func TestEncode(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{
		{String("A <name>.").Length(1, 32).Pattern("^[a-z]+$"), `{"type":"string","description":"A <name>.","minLength":1,"maxLength":32,"pattern":"^[a-z]+$"}`},
		{Integer("").Between(1, 10).Default(5), `{"type":"integer","format":"int64","minimum":1,"maximum":10,"default":5}`},
		{Number("").Example(7049.5, 7050), `{"type":"number","format":"double","examples":[7049.5,7050]}`},
		{Enum("", "asc", "desc"), `{"type":"string","enum":["asc","desc"]}`},
		{Const("T").Describe("A trade."), `{"type":"string","const":"T","description":"A trade."}`},
		{True(""), `{"type":"boolean","const":true}`},
		{Object("", Required("b", Boolean("")), Optional("a", Code(200))),
			`{"type":"object","properties":{"b":{"type":"boolean"},"a":{"type":"integer","format":"int64","const":200}},"required":["b"]}`},
		{Object("", Optional("a", Any(""))).Open(), `{"type":"object","properties":{"a":{}},"additionalProperties":true}`},
		{MapOf("", Ref("Size")), `{"type":"object","additionalProperties":{"$ref":"#/components/schemas/Size"}}`},
		{Tuple("", 2, Ref("Price"), Ref("Size"), Integer("")),
			`{"type":"array","prefixItems":[{"$ref":"#/components/schemas/Price"},{"$ref":"#/components/schemas/Size"},{"type":"integer","format":"int64"}],"items":{"type":"number"},"minItems":2,"maxItems":3}`},
		{Array("", String("")).Nullable(), `{"type":["array","null"],"items":{"type":"string"}}`},
		{Ref("Price").Nullable(), `{"oneOf":[{"$ref":"#/components/schemas/Price"},{"type":"null"}]}`},
		{Map{}.With("z", 1).WithText("empty", "").With("a", []Map{{{Name: "x", Value: "&"}}}), `{"z":1,"a":[{"x":"&"}]}`},
	} {
		got, err := Encode(c.value)
		if err != nil || string(got) != c.want {
			t.Errorf("got %s, %v\nwant %s", got, err, c.want)
		}
	}
	if _, err := Encode(Map{}.With("f", func() {})); err == nil {
		t.Error("a function is JSON")
	}
	if got := string(Indent([]byte(`{"a":[1]}`))); got != "{\n  \"a\": [\n    1\n  ]\n}\n" {
		t.Errorf("got %q", got)
	}
}

// TestReachable checks that components are found through references, and that those which do not
// exist are reported.
func TestReachable(t *testing.T) {
	all := []Named{
		{"Price", Number("")},
		{"Unused", Ref("Price")},
		{"Level", Tuple("", 2, Ref("Price"), Ref("Size"))},
		{"Size", Number("")},
		{"Book", Object("", Required("next", Ref("Book")), Required("B", Array("", Ref("Level"))))},
	}
	document := Map{{Name: "paths", Value: []any{Map{{Name: "schema", Value: OneOf("", Ref("Book"), Ref("Gone"))}}}}}
	used, missing := Reachable(all, document)
	var names []string
	for _, n := range used {
		names = append(names, n.Name)
	}
	if strings.Join(names, " ") != "Price Level Size Book" || !slices.Equal(missing, []string{"Gone"}) {
		t.Errorf("got %v, missing %v", names, missing)
	}
	got, err := Encode(Components(used[:1]))
	if want := `{"Price":{"type":"number","format":"double"}}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
}

// TestFields checks that the members of an object can be listed for tables.
func TestFields(t *testing.T) {
	o := Object("", Required("a", String("First.")), Optional("b", Integer("")))
	fields := o.Fields()
	if len(fields) != 2 || fields[0].Optional || !fields[1].Optional || fields[0].Schema.Get("description") != "First." || o.Get("minimum") != nil {
		t.Errorf("got %+v", fields)
	}
}
