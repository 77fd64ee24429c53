package openapitest_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/ruedahq/rueda/internal/api/openapi"
	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
)

func newChecker(t *testing.T) *openapitest.Checker {
	t.Helper()
	document, err := openapi.PublicDocument()
	if err != nil {
		t.Fatal(err)
	}
	c, err := openapitest.New(document)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// trades returns an exchange that follows the document.
func trades() *openapitest.Exchange {
	return &openapitest.Exchange{
		Method: "GET", Path: "/market/trades", Query: "instrument=GGAL%7CBYMA%7C24hs&limit=10&order=desc&cursor=", RequestHeader: http.Header{},
		Status: 200,
		Header: http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {"r"}, "Etag": {`"x"`}, "X-Ratelimit-Limit": {"600"}},
		Body:   []byte(`{"success":true,"data":{"trades":[{"type":"T","S":"GGAL","I":"GGAL|BYMA|24hs","N":7,"T":"2026-11-20T14:30:00.123456789Z","P":7050,"Z":120}],"epoch":"e1"}}`),
	}
}

// login returns one with a body in the request.
func login() *openapitest.Exchange {
	return &openapitest.Exchange{
		Method: "POST", Path: "/auth/token", RequestHeader: http.Header{"Content-Type": {"application/json"}},
		RequestBody: []byte(`{"grant_type":"password","username":"demo","password":"demo"}`),
		Status:      200, Header: http.Header{"Content-Type": {"application/json"}},
		Body: []byte(`{"success":true,"data":{"access_token":"a","token_type":"bearer","expires_in":1,"refresh_token":"r","refresh_expires_in":1,"scope":""}}`),
	}
}

// refusal returns one with an error.
func refusal() *openapitest.Exchange {
	x := trades()
	x.Status, x.Header = 403, http.Header{"Content-Type": {"application/json"}}
	x.Body = []byte(`{"success":false,"error":{"code":403,"reason":"not_entitled","msg":"No right","request_id":"r","doc":"/docs/reasons/not_entitled"}}`)
	return x
}

// oauth returns one with an error in the form of RFC 6749.
func oauth() *openapitest.Exchange {
	return &openapitest.Exchange{
		Method: "POST", Path: "/oauth/token", Status: 400, Header: http.Header{"Content-Type": {"application/json"}, "Pragma": {"no-cache"}},
		Body: []byte(`{"error":"invalid_grant","error_description":"Wrong","reason":"invalid_credentials","request_id":"r","error_uri":"/docs/reasons/invalid_credentials"}`),
	}
}

// lost returns one for a path that does not exist.
func lost() *openapitest.Exchange {
	return &openapitest.Exchange{
		Method: "GET", Path: "/nowhere", Status: 404, Header: http.Header{"Content-Type": {"application/json"}},
		Body: []byte(`{"success":false,"error":{"code":404,"reason":"not_found","msg":"Not found","request_id":"r","doc":"/docs/reasons/not_found"}}`),
	}
}

// TestDescribed checks that exchanges which follow the document are accepted.
func TestDescribed(t *testing.T) {
	c := newChecker(t)
	wrongMethod := lost()
	wrongMethod.Method, wrongMethod.Path, wrongMethod.Status = "PUT", "/auth/token", 405
	wrongMethod.Header.Set("Allow", "POST")
	wrongMethod.Body = bytes.ReplaceAll(bytes.ReplaceAll(wrongMethod.Body, []byte("not_found"), []byte("method_not_allowed")), []byte("404"), []byte("405"))
	notModified := trades()
	notModified.Status, notModified.Body = 304, nil
	head := trades()
	head.Method, head.Body = "HEAD", nil
	session := lost()
	session.Method, session.Path = "DELETE", "/auth/sessions/abc"
	for _, x := range []*openapitest.Exchange{
		trades(), login(), refusal(), oauth(), lost(), wrongMethod, notModified, head, session, {Method: "OPTIONS", Path: "/auth/token", Status: 204},
	} {
		if err := c.Check(x); err != nil {
			t.Errorf("%v: %v", x, err)
		}
	}
}

// TestNotDescribed checks that each kind of thing that the document does not describe is an error.
func TestNotDescribed(t *testing.T) {
	c := newChecker(t)
	replace := func(b *[]byte, from, to string) {
		if !bytes.Contains(*b, []byte(from)) {
			t.Fatalf("%s is not in %s", from, *b)
		}
		*b = bytes.Replace(*b, []byte(from), []byte(to), 1)
	}
	for name, make := range map[string]func() *openapitest.Exchange{
		"member of an answer": func() *openapitest.Exchange { x := trades(); replace(&x.Body, `"epoch"`, `"new":1,"epoch"`); return x },
		"member of a row":     func() *openapitest.Exchange { x := trades(); replace(&x.Body, `"P"`, `"V":1,"P"`); return x },
		"missing member":      func() *openapitest.Exchange { x := trades(); replace(&x.Body, `,"epoch":"e1"`, ``); return x },
		"type of a member":    func() *openapitest.Exchange { x := trades(); replace(&x.Body, `7050`, `"7050"`); return x },
		"form of a time":      func() *openapitest.Exchange { x := trades(); replace(&x.Body, `.123456789Z`, `.123Z`); return x },
		"member of an error":  func() *openapitest.Exchange { x := refusal(); replace(&x.Body, `"msg"`, `"text":"","msg"`); return x },
		"word that is no reason": func() *openapitest.Exchange {
			x := refusal()
			replace(&x.Body, `"not_entitled"`, `"no_right"`)
			return x
		},
		"reason of another route": func() *openapitest.Exchange {
			x := refusal()
			replace(&x.Body, `"not_entitled"`, `"mfa_required"`)
			return x
		},
		"reason of another status": func() *openapitest.Exchange {
			x := refusal()
			replace(&x.Body, `"not_entitled"`, `"epoch_changed"`)
			return x
		},
		"reason of OAuth": func() *openapitest.Exchange {
			x := oauth()
			replace(&x.Body, `"invalid_credentials"`, `"not_entitled"`)
			return x
		},
		"error word of OAuth":     func() *openapitest.Exchange { x := oauth(); replace(&x.Body, `invalid_grant`, `bad_grant`); return x },
		"header":                  func() *openapitest.Exchange { x := trades(); x.Header.Set("X-New", "1"); return x },
		"header of an error":      func() *openapitest.Exchange { x := refusal(); x.Header.Set("WWW-Authenticate", "Bearer"); return x },
		"value of a header":       func() *openapitest.Exchange { x := trades(); x.Header.Set("X-Ratelimit-Limit", "many"); return x },
		"media type":              func() *openapitest.Exchange { x := trades(); x.Header.Set("Content-Type", "text/html"); return x },
		"body without media type": func() *openapitest.Exchange { x := trades(); x.Header.Del("Content-Type"); return x },
		"status":                  func() *openapitest.Exchange { x := trades(); x.Status = 201; return x },
		"status of an error":      func() *openapitest.Exchange { x := refusal(); x.Status = 402; return x },
		"route":                   func() *openapitest.Exchange { x := trades(); x.Path = "/market/deals"; return x },
		"method":                  func() *openapitest.Exchange { x := trades(); x.Method = "POST"; return x },
		"answer without a route":  func() *openapitest.Exchange { x := lost(); x.Status = 418; return x },
		"parameter":               func() *openapitest.Exchange { x := trades(); x.Query += "&page=2"; return x },
		"value of a parameter":    func() *openapitest.Exchange { x := trades(); x.Query += "&after_sequence=x"; return x },
		"word of a parameter":     func() *openapitest.Exchange { x := trades(); x.Query = "instrument=A%7CB%7CC&order=up"; return x },
		"limit of a parameter":    func() *openapitest.Exchange { x := trades(); x.Query = "instrument=A%7CB%7CC&limit=10001"; return x },
		"missing parameter":       func() *openapitest.Exchange { x := trades(); x.Query = "limit=1"; return x },
		"empty parameter":         func() *openapitest.Exchange { x := trades(); x.Query += "&epoch="; return x },
		"member of a request": func() *openapitest.Exchange {
			x := login()
			replace(&x.RequestBody, `"username"`, `"device":1,"username"`)
			return x
		},
		"missing request member": func() *openapitest.Exchange {
			x := login()
			replace(&x.RequestBody, `,"password":"demo"`, ``)
			return x
		},
		"word of a request": func() *openapitest.Exchange {
			x := login()
			replace(&x.RequestBody, `"password"`, `"implicit"`)
			return x
		},
		"request media type": func() *openapitest.Exchange {
			x := login()
			x.RequestHeader.Set("Content-Type", "text/plain")
			return x
		},
		"answer that is not JSON":  func() *openapitest.Exchange { x := trades(); x.Body = []byte("{"); return x },
		"request that is not JSON": func() *openapitest.Exchange { x := login(); x.RequestBody = []byte("{"); return x },
	} {
		if err := c.Check(make()); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := openapitest.New([]byte(`{"openapi":"3.1.0"}`)); err == nil {
		t.Error("a document without paths is accepted")
	}
}

// reporter is a test that counts its errors.
type reporter struct {
	testing.TB
	errors []string
}

func (r *reporter) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// send sends a request through a checking handler that answers with the header and a body, and
// returns the errors of the test.
func send(t *testing.T, c *openapitest.Checker, x *openapitest.Exchange, answer []byte) []string {
	t.Helper()
	r := &reporter{TB: t}
	h := openapitest.Handler(r, c, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for name, values := range x.Header {
			w.Header()[name] = values
		}
		_, _ = w.Write(answer)
	}))
	q := httptest.NewRequest(x.Method, x.Path+"?"+x.Query, bytes.NewReader(x.RequestBody))
	q.Header = x.RequestHeader
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, q); !bytes.Equal(w.Body.Bytes(), answer) {
		t.Errorf("the answer was changed: %q", w.Body)
	}
	return r.errors
}

// TestHandler checks that the handler validates the bodies of requests and answers, also compressed
// ones, and passes them on unchanged.
func TestHandler(t *testing.T) {
	c := newChecker(t)
	good, bad := login(), login()
	bad.RequestBody = bytes.Replace(bad.RequestBody, []byte("username"), []byte("user"), 1)
	if errors := send(t, c, good, good.Body); len(errors) > 0 {
		t.Error(errors)
	}
	if errors := send(t, c, bad, bad.Body); len(errors) == 0 {
		t.Error("a request with another member is accepted")
	}
	for coding, encode := range map[string]func([]byte) []byte{
		"": func(b []byte) []byte { return b },
		"gzip": func(b []byte) []byte {
			var out bytes.Buffer
			z := gzip.NewWriter(&out)
			_, _ = z.Write(b)
			_ = z.Close()
			return out.Bytes()
		},
		"zstd": func(b []byte) []byte {
			z, err := zstd.NewWriter(nil)
			if err != nil {
				t.Fatal(err)
			}
			return z.EncodeAll(b, nil)
		},
	} {
		x := trades()
		if coding != "" {
			x.Header.Set("Content-Encoding", coding)
		}
		if errors := send(t, c, x, encode(x.Body)); len(errors) > 0 {
			t.Errorf("%q: %q", coding, errors)
		}
		wrong := bytes.Replace(x.Body, []byte("epoch"), []byte("era"), 1)
		if errors := send(t, c, x, encode(wrong)); len(errors) == 0 {
			t.Errorf("%q: an answer with another member is accepted", coding)
		}
	}
}
