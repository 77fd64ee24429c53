package schematest

import (
	"slices"
	"strings"
	"testing"
)

const openAPI = `{"openapi":"3.1.0","paths":{
"/rows":{"get":{"security":[{"bearer":["read"]}],
 "parameters":[{"name":"limit","in":"query","schema":{"type":"integer","maximum":100}},
  {"name":"order","in":"query","allowEmptyValue":true,"schema":{"enum":["asc","desc"]}}],
 "responses":{"200":{"headers":{"ETag":{}},"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Page"}},"text/csv":{"schema":{"type":"string"}}}},
  "403":{"$ref":"#/components/responses/E403"}},"x-reasons":{"403":["forbidden","not_entitled"]}}},
"/login":{"post":{"security":[],
 "requestBody":{"required":true,"content":{"application/json":{"schema":{"oneOf":[{"$ref":"#/components/schemas/Password"},{"$ref":"#/components/schemas/Refresh"}]}}}},
 "responses":{"200":{}}},
 "delete":{"security":[{"bearer":[]},{"login":[]}],"responses":{"200":{}}}}},
"components":{"responses":{"E403":{"headers":{"Allow":{}}}},"schemas":{
 "Page":{"type":"object","properties":{"rows":{"type":"array","items":{"$ref":"#/components/schemas/Row"}},"next":{"type":"string"},"parent":{"$ref":"#/components/schemas/Page"}},"required":["rows"]},
 "Row":{"type":"object","properties":{"type":{"const":"T"},"P":{"type":"number"},"E":{"enum":["open","halt"]},"T":{"type":"string","pattern":"^Z$"},
  "L":{"type":"array","prefixItems":[{"type":"number"},{"type":"integer"}]},"M":{"type":"object","additionalProperties":{"type":"integer"}}},"required":["type","P"]},
 "Password":{"type":"object","properties":{"grant":{"const":"password"},"user":{"type":"string","maxLength":9},"otp":{"type":["string","null"]}},"required":["grant","user"]},
 "Refresh":{"type":"object","properties":{"grant":{"const":"refresh"},"token":{"type":"string"}},"required":["grant","token"]}}}}`

const asyncAPI = `{"asyncapi":"3.0.0",
"channels":{"stream":{"messages":{"subscribe":{"$ref":"#/components/messages/subscribe"},"trade":{"$ref":"#/components/messages/trade"}}}},
"operations":{"ask":{"action":"receive","messages":[{"$ref":"#/channels/stream/messages/subscribe"}]},
 "data":{"action":"send","messages":[{"$ref":"#/channels/stream/messages/trade"}]}},
"components":{"messages":{"subscribe":{"payload":{"$ref":"#/components/schemas/Subscribe"}},"trade":{"payload":{"$ref":"#/components/schemas/Trade"}}},
 "schemas":{"Subscribe":{"type":"object","properties":{"depth":{"enum":[1,5]}}},
  "Trade":{"type":"object","properties":{"P":{"type":"number"},"L":{"type":"array","items":[{"type":"number"}],"additionalItems":false}},"required":["P"]}}}}`

// TestBreaking checks for each kind of change whether it breaks clients.
func TestBreaking(t *testing.T) {
	for _, tt := range []struct{ document, from, to, want string }{
		{openAPI, `"/rows"`, `"/lines"`, "GET /rows: is removed"},
		{openAPI, `"delete"`, `"put"`, "DELETE /login: is removed"},
		{openAPI, `"security":[],`, `"security":[{"bearer":[]}],`, "POST /login: needs a token"},
		{openAPI, `"security":[],`, `"security":[{},{"bearer":[]}],`, ""},
		{openAPI, `{"bearer":["read"]}`, `{"bearer":["read","deep"]}`, "GET /rows: needs more than"},
		{openAPI, `{"bearer":["read"]}`, `{"bearer":[]}`, ""},
		{openAPI, `[{"bearer":[]},{"login":[]}]`, `[{"login":[]}]`, "DELETE /login: needs more than"},
		{openAPI, `"name":"limit"`, `"name":"count"`, "GET /rows: query parameter limit is removed"},
		{openAPI, `"in":"query","schema"`, `"in":"query","required":true,"schema"`, "GET /rows: query parameter limit is required"},
		{openAPI, `"maximum":100`, `"maximum":50`, "GET /rows: query parameter limit: maximum is stricter"},
		{openAPI, `"maximum":100`, `"maximum":500`, ""},
		{openAPI, `"maximum":100`, `"maximum":100,"minimum":1`, "minimum is stricter"},
		{openAPI, `"allowEmptyValue":true,`, ``, "GET /rows: query parameter order must not be empty"},
		{openAPI, `["asc","desc"]`, `["asc"]`, "GET /rows: query parameter order: desc is removed"},
		{openAPI, `["asc","desc"]`, `["asc","desc","none"]`, ""},
		{openAPI, `{"type":"integer","maximum":100}`, `{"type":"integer","maximum":100,"enum":[1,2]}`, "accepts only some values"},
		{openAPI, `"200":{"headers"`, `"201":{"headers"`, "GET /rows: 200: is removed"},
		{openAPI, `"ETag"`, `"Tag"`, "GET /rows: 200: header ETag is removed"},
		{openAPI, `"text/csv"`, `"text/tsv"`, "GET /rows: 200: text/csv is removed"},
		{openAPI, `"Allow"`, `"Allows"`, "GET /rows: 403: header Allow is removed"},
		{openAPI, `["forbidden","not_entitled"]`, `["forbidden"]`, "GET /rows: 403: reason not_entitled is removed"},
		{openAPI, `["forbidden","not_entitled"]`, `["forbidden","not_entitled","new"]`, ""},
		{openAPI, `"next":`, `"more":`, "GET /rows: 200: application/json: member next is removed"},
		{openAPI, `"next":`, `"more":{},"next":`, ""},
		{openAPI, `"required":["rows"]`, `"required":[]`, "application/json: member rows may be absent"},
		{openAPI, `"required":["rows"]`, `"required":["rows","next"]`, ""},
		{openAPI, `"P":{"type":"number"}`, `"P":{"type":"string"}`, "application/json.rows[].P: has another type"},
		{openAPI, `"P":{"type":"number"}`, `"P":{"type":"integer"}`, ""},
		{openAPI, `"P":{"type":"number"}`, `"P":{"type":["number","null"]}`, "rows[].P: has another type"},
		{openAPI, `"P":{"type":"number"}`, `"P":{}`, "rows[].P: has another type"},
		{openAPI, `["open","halt"]`, `["open"]`, "rows[].E: halt is removed"},
		{openAPI, `["open","halt"]`, `["open","halt","pause"]`, ""},
		{openAPI, `"const":"T"`, `"const":"U"`, "rows[].type: T is removed"},
		{openAPI, `"^Z$"`, `"^.Z$"`, "rows[].T: pattern changes"},
		{openAPI, `[{"type":"number"},{"type":"integer"}]`, `[{"type":"number"}]`, "rows[].L: item 1 is removed"},
		{openAPI, `[{"type":"number"},{"type":"integer"}]`, `[{"type":"number"},{"type":"string"}]`, "rows[].L[1]: has another type"},
		{openAPI, `"additionalProperties":{"type":"integer"}`, `"additionalProperties":{"type":"string"}`, "rows[].M.*: has another type"},
		{openAPI, `"user":{"type":"string","maxLength":9}`, `"name":{"type":"string","maxLength":9}`, "member user is removed"},
		{openAPI, `"required":["grant","user"]`, `"required":["grant","user","otp"]`, "POST /login: request: application/json: member otp is required"},
		{openAPI, `"required":["grant","user"]`, `"required":["grant"]`, ""},
		{openAPI, `"maxLength":9`, `"maxLength":8`, "application/json.user: maxLength is stricter"},
		{openAPI, `"otp":{"type":["string","null"]}`, `"otp":{"type":"string"}`, "application/json.otp: has another type"},
		{openAPI, `{"oneOf":[{"$ref":"#/components/schemas/Password"},{"$ref":"#/components/schemas/Refresh"}]}`, `{"$ref":"#/components/schemas/Refresh"}`, "POST /login"},
		{openAPI, `"requestBody":{"required":true,"content":{"application/json"`, `"requestBody":{"required":true,"content":{"text/json"`, "request: application/json is removed"},
		{openAPI, `"/login":`, `"/more":{"get":{}},"/login":`, ""},
		{asyncAPI, `"ask"`, `"demand"`, "ask: is removed"},
		{asyncAPI, `"messages":[{"$ref":"#/channels/stream/messages/trade"}]`, `"messages":[]`, "data: message trade is removed"},
		{asyncAPI, `"P":{"type":"number"}`, `"P":{"type":"string"}`, "data: trade.P: has another type"},
		{asyncAPI, `"required":["P"]`, `"required":[]`, "data: trade: member P may be absent"},
		{asyncAPI, `[1,5]`, `[5]`, "ask: subscribe.depth: 1 is removed"},
		{asyncAPI, `"items":[{"type":"number"}]`, `"items":[{"type":"string"}]`, "data: trade.L[0]: has another type"},
		{asyncAPI, `"properties":{"depth"`, `"required":["id"],"properties":{"id":{},"depth"`, "ask: subscribe: member id is required"},
	} {
		if !strings.Contains(tt.document, tt.from) {
			t.Fatalf("%s is not in the document", tt.from)
		}
		got, err := Breaking([]byte(tt.document), []byte(strings.Replace(tt.document, tt.from, tt.to, 1)))
		if err != nil {
			t.Fatalf("%s: %v", tt.to, err)
		}
		found := slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, tt.want) })
		if tt.want == "" && len(got) > 0 || tt.want != "" && !found {
			t.Errorf("%s became %s: got %q, want %q", tt.from, tt.to, got, tt.want)
		}
	}
	for _, same := range []string{openAPI, asyncAPI} {
		if got, err := Breaking([]byte(same), []byte(same)); err != nil || len(got) > 0 {
			t.Errorf("the same document: %q, %v", got, err)
		}
	}
	if _, err := Breaking([]byte("{"), []byte("{}")); err == nil {
		t.Error("half a document is accepted")
	}
}
