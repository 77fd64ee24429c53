package schematest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Breaking returns descriptions of the changes between two documents that break clients, sorted.
// Both documents are OpenAPI, or both are AsyncAPI. docs/versioning.md defines which changes break
// clients.
func Breaking(old, changed []byte) ([]string, error) {
	c := &comparison{found: map[string]bool{}}
	var err error
	if c.old, err = Parse(old); err != nil {
		return nil, fmt.Errorf("parse the old document: %w", err)
	}
	if c.now, err = Parse(changed); err != nil {
		return nil, fmt.Errorf("parse the new document: %w", err)
	}
	if member(c.old, "asyncapi") != nil {
		c.operations()
	} else {
		c.paths()
	}
	return slices.Sorted(maps.Keys(c.found)), nil
}

// comparison collects the breaking changes between an old and a new document.
type comparison struct {
	old, now any
	found    map[string]bool
	open     []string // pairs of references that are being compared
}

func (c *comparison) report(where, format string, args ...any) {
	c.found[where+": "+fmt.Sprintf(format, args...)] = true
}

// member follows names through nested objects. It returns nil if a member is missing.
func member(value any, names ...string) any {
	for _, name := range names {
		m, _ := value.(map[string]any)
		value = m[name]
	}
	return value
}

func object(value any) map[string]any { m, _ := value.(map[string]any); return m }

func list(value any) []any { l, _ := value.([]any); return l }

// resolve returns the value that a reference within document leads to, or value itself if it is no
// reference. It returns nil after eight references in a row.
func resolve(document, value any) any {
	for range 8 {
		ref, ok := object(value)["$ref"].(string)
		if !ok {
			return value
		}
		value = document
		for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			value = member(value, strings.NewReplacer("~1", "/", "~0", "~").Replace(name))
		}
	}
	return nil
}

// paths compares the operations of two OpenAPI documents.
func (c *comparison) paths() {
	for path, item := range object(member(c.old, "paths")) {
		for method, old := range object(item) {
			where := strings.ToUpper(method) + " " + path
			now := member(c.now, "paths", path, method)
			if now == nil {
				c.report(where, "is removed")
				continue
			}
			c.security(where, member(old, "security"), member(now, "security"))
			c.parameters(where, old, now)
			c.body(where, old, now)
			c.responses(where, member(old, "responses"), member(now, "responses"))
			c.reasons(where, member(old, "x-reasons"), member(now, "x-reasons"))
		}
	}
}

// security compares the credentials that an operation requires. It reports each alternative in the
// old document that is no longer sufficient.
func (c *comparison) security(where string, old, now any) {
	if len(list(old)) == 0 { // no token
		if len(list(now)) > 0 && !slices.ContainsFunc(list(now), func(v any) bool { return len(object(v)) == 0 }) {
			c.report(where, "needs a token")
		}
		return
	}
	for _, before := range list(old) {
		if len(list(now)) > 0 && !slices.ContainsFunc(list(now), func(v any) bool { return grants(object(before), object(v)) }) {
			c.report(where, "needs more than %v", before)
		}
	}
}

// grants reports whether credentials with the schemes and scopes in have satisfy the requirement
// required.
func grants(have, required map[string]any) bool {
	for scheme, scopes := range required {
		if _, ok := have[scheme]; !ok {
			return false
		}
		for _, scope := range list(scopes) {
			if !slices.Contains(list(have[scheme]), scope) {
				return false
			}
		}
	}
	return true
}

func (c *comparison) parameters(where string, old, now any) {
	known := map[string]map[string]any{}
	for _, p := range list(member(old, "parameters")) {
		p := object(resolve(c.old, p))
		known[fmt.Sprint(p["in"], " parameter ", p["name"])] = p
	}
	for _, p := range list(member(now, "parameters")) {
		p := object(resolve(c.now, p))
		name := fmt.Sprint(p["in"], " parameter ", p["name"])
		before := known[name]
		delete(known, name)
		if p["required"] == true && before["required"] != true {
			c.report(where, "%s is required", name)
		}
		if before != nil {
			c.schemas(where+": "+name, before["schema"], p["schema"], true)
		}
		if before["allowEmptyValue"] == true && p["allowEmptyValue"] != true {
			c.report(where, "%s must not be empty", name)
		}
	}
	for name := range known {
		c.report(where, "%s is removed", name)
	}
}

func (c *comparison) body(where string, old, now any) {
	if member(old, "requestBody") == nil && member(now, "requestBody", "required") == true {
		c.report(where, "needs a body")
	}
	c.content(where+": request", member(old, "requestBody", "content"), member(now, "requestBody", "content"), true)
}

func (c *comparison) content(where string, old, now any, request bool) {
	for media, before := range object(old) {
		after := member(now, media)
		if after == nil {
			c.report(where, "%s is removed", media)
			continue
		}
		c.schemas(where+": "+media, member(before, "schema"), member(after, "schema"), request)
	}
}

func (c *comparison) responses(where string, old, now any) {
	for status, before := range object(old) {
		where := where + ": " + status
		if member(now, status) == nil {
			c.report(where, "is removed")
			continue
		}
		before, after := resolve(c.old, before), resolve(c.now, member(now, status))
		for name := range object(member(before, "headers")) {
			if member(after, "headers", name) == nil {
				c.report(where, "header %s is removed", name)
			}
		}
		c.content(where, member(before, "content"), member(after, "content"), false)
	}
}

// reasons reports each reason of an operation's errors that its status no longer has.
func (c *comparison) reasons(where string, old, now any) {
	for status, words := range object(old) {
		for _, word := range list(words) {
			if !slices.Contains(list(member(now, status)), word) {
				c.report(where+": "+status, "reason %v is removed", word)
			}
		}
	}
}

// operations compares the operations of two AsyncAPI documents. Messages of an operation with the
// action receive come from clients, and all other messages from the gateway.
func (c *comparison) operations() {
	for name, old := range object(member(c.old, "operations")) {
		now := member(c.now, "operations", name)
		if now == nil {
			c.report(name, "is removed")
			continue
		}
		c.messages(name, member(old, "messages"), member(now, "messages"), member(old, "action") == "receive")
		c.messages(name+": reply", member(old, "reply", "messages"), member(now, "reply", "messages"), false)
	}
}

func (c *comparison) messages(where string, old, now any, request bool) {
	for _, before := range list(old) {
		at := slices.IndexFunc(list(now), func(v any) bool { return member(v, "$ref") == member(before, "$ref") })
		name := fmt.Sprint(member(before, "$ref"))
		name = name[strings.LastIndexByte(name, '/')+1:]
		if at < 0 {
			c.report(where, "message %s is removed", name)
			continue
		}
		a, b := resolve(c.old, before), resolve(c.now, list(now)[at])
		c.schemas(where+": "+name, member(a, "payload"), member(b, "payload"), request)
	}
}

// schemas compares an old and a new schema. If request is true, clients send the values, so that
// the new schema must accept all old values. Otherwise clients receive the values, and must not get
// new forms.
func (c *comparison) schemas(where string, old, now any, request bool) {
	if a, ok := object(old)["$ref"].(string); ok {
		pair := fmt.Sprint(a, object(now)["$ref"], request)
		if slices.Contains(c.open, pair) { // it contains itself
			return
		}
		c.open = append(c.open, pair)
		defer func() { c.open = c.open[:len(c.open)-1] }()
	}
	a, b := object(resolve(c.old, old)), object(resolve(c.now, now))
	if a == nil || b == nil {
		return
	}
	c.types(where, a, b, request)
	c.words(where, a, b, request)
	c.limits(where, a, b, request)
	c.members(where, a, b, request)
	c.items(where, a, b, request)
	for _, keyword := range []string{"oneOf", "anyOf"} {
		c.variants(where, a, b, keyword, request)
	}
}

// typesOf returns the types that a schema allows, or nil if it allows all.
func typesOf(s map[string]any) []any {
	if one, ok := s["type"].(string); ok {
		return []any{one}
	}
	return list(s["type"])
}

func (c *comparison) types(where string, a, b map[string]any, request bool) {
	narrow, wide := typesOf(b), typesOf(a) // answers may have fewer types than before
	if request {
		narrow, wide = wide, narrow
	}
	if wide == nil {
		return
	}
	if narrow == nil {
		if s := a; s["oneOf"] == nil && s["anyOf"] == nil {
			c.report(where, "has another type")
		}
		return
	}
	for _, kind := range narrow {
		if !slices.Contains(wide, kind) && (kind != "integer" || !slices.Contains(wide, any("number"))) {
			c.report(where, "has another type")
			return
		}
	}
}

// wordsOf returns the values that enum or const allows, or nil if the schema has neither.
func wordsOf(s map[string]any) []any {
	if v, ok := s["const"]; ok {
		return []any{v}
	}
	return list(s["enum"])
}

func (c *comparison) words(where string, a, b map[string]any, request bool) {
	old, now := wordsOf(a), wordsOf(b)
	if now == nil {
		return
	}
	if old == nil {
		if request {
			c.report(where, "accepts only some values")
		}
		return
	}
	for _, word := range old {
		if !slices.Contains(now, word) {
			c.report(where, "%v is removed", word)
		}
	}
}

// limits reports changes of pattern and format, and stricter limits for values that clients send.
func (c *comparison) limits(where string, a, b map[string]any, request bool) {
	for _, keyword := range []string{"pattern", "format"} {
		if now, ok := b[keyword]; ok && now != a[keyword] || !request && a[keyword] != b[keyword] {
			c.report(where, "%s changes", keyword)
		}
	}
	if !request {
		return
	}
	for keyword, sign := range map[string]float64{
		"minimum": 1, "minLength": 1, "minItems": 1, "maximum": -1, "maxLength": -1, "maxItems": -1,
	} {
		now, ok := number(b[keyword])
		if !ok {
			continue
		}
		if old, ok := number(a[keyword]); !ok || sign*now > sign*old {
			c.report(where, "%s is stricter", keyword)
		}
	}
}

func number(v any) (float64, bool) {
	if v == nil {
		return 0, false
	}
	n, err := strconv.ParseFloat(fmt.Sprint(v), 64)
	return n, err == nil
}

func (c *comparison) members(where string, a, b map[string]any, request bool) {
	for name, before := range object(a["properties"]) {
		after := member(b["properties"], name)
		if after == nil {
			c.report(where, "member %s is removed", name)
			continue
		}
		c.schemas(where+"."+name, before, after, request)
	}
	if request {
		a, b = b, a
	}
	for _, name := range list(a["required"]) {
		switch {
		case slices.Contains(list(b["required"]), name):
		case request:
			c.report(where, "member %v is required", name)
		case member(b["properties"], fmt.Sprint(name)) != nil:
			c.report(where, "member %v may be absent", name)
		}
	}
	if request {
		a, b = b, a
	}
	if a["additionalProperties"] != nil && object(b["additionalProperties"]) != nil {
		c.schemas(where+".*", a["additionalProperties"], b["additionalProperties"], request)
	}
}

func (c *comparison) items(where string, a, b map[string]any, request bool) {
	c.schemas(where+"[]", a["items"], b["items"], request)
	for _, keyword := range []string{"prefixItems", "items"} { // 2020-12, draft 7
		old, now := list(a[keyword]), list(b[keyword])
		for i := range old {
			if i >= len(now) {
				c.report(where, "item %d is removed", i)
				break
			}
			c.schemas(fmt.Sprintf("%s[%d]", where, i), old[i], now[i], request)
		}
	}
}

// variants compares the alternatives of oneOf or anyOf. For each old alternative it finds the new
// one with the fewest breaking changes, and reports these changes.
func (c *comparison) variants(where string, a, b map[string]any, keyword string, request bool) {
	now := list(b[keyword])
	if now == nil && list(a[keyword]) != nil {
		now = []any{b}
	}
	for i, before := range list(a[keyword]) {
		var least map[string]bool
		for _, after := range now {
			try := &comparison{old: c.old, now: c.now, found: map[string]bool{}, open: c.open}
			try.schemas(where, before, after, request)
			if least == nil || len(try.found) < len(least) {
				least = try.found
			}
		}
		if now == nil || len(least) > 3 {
			c.report(where, "variant %d of %s is removed", i+1, keyword)
			continue
		}
		maps.Copy(c.found, least)
	}
}
