package operator

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/api/adminapi"
	"github.com/ruedahq/rueda/wire"
)

// TestDecodeText checks the reasons of bodies that cannot be read.
func TestDecodeText(t *testing.T) {
	for text, want := range map[string]wire.Reason{
		`{"username":"ana","password":"x"}`:     "",
		`{}`:                                    "",
		``:                                      wire.BadJSON,
		`null`:                                  wire.BadJSON,
		`{"username":"a","username":"b"}`:       wire.BadJSON,
		`{"username":"ana"} {}`:                 wire.BadJSON,
		`{"name":"ana"}`:                        wire.BadField,
		`{"username":["ana"]}`:                  wire.BadField,
		`{"rights":{"scopes":"all"}}`:           wire.BadField,
		`{"rights":{"entitlements":[{"x":1}]}}`: wire.BadField,
		`{"rights":{"entitlements":[{"from":1}]}}`: wire.BadField,
	} {
		got := wire.Reason("")
		if f := DecodeText([]byte(text), &adminapi.AddUser{}); f != nil {
			got = f.Reason
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestRightsChange checks which changes of rights are made: only those of rights that are valid and
// as expected.
func TestRightsChange(t *testing.T) {
	now := local.Rights{Scopes: []string{"marketdata:read"}}
	const same, none = `{"scopes":["marketdata:read"],"entitlements":[],"limits":{},"networks":[]}`, `{"scopes":[],"entitlements":[],"limits":{},"networks":[]}`
	set := func(members string) string { return `{"action":"set_rights","rights":{` + members + `}}` }
	for text, want := range map[string]wire.Reason{
		`{"action":"set_rights","rights":` + none + `}`:                                     "",
		`{"action":"set_rights","rights":` + none + `,"expected":` + same + `}`:             "",
		`{"action":"set_rights","rights":` + none + `,"expected":` + none + `}`:             wire.Conflict,
		set(`"scopes":["two words"],"entitlements":[],"limits":{},"networks":[]`):           wire.BadField,
		set(`"scopes":[],"entitlements":[],"limits":{"connections":-1},"networks":[]`):      wire.BadField,
		set(`"scopes":[],"entitlements":[],"limits":{},"networks":["192.0.2.1/8"]`):         wire.BadField,
		`{"action":"set_rights","rights":` + none + `,"expected":{"networks":["nowhere"]}}`: wire.BadField,
		`{"action":"set_rights"}`: wire.InvalidRequest,
	} {
		var body adminapi.Change
		if f := DecodeText([]byte(text), &body); f != nil {
			t.Fatal(text, f)
		}
		r, got := now, wire.Reason("")
		edit, f := rightsEdit(&body.RightsChange)
		if f == nil {
			if err := edit(&r); err != nil {
				f = err.(*wire.Failure)
			}
		}
		if f != nil {
			got = f.Reason
		}
		if got != want || want != "" && !reflect.DeepEqual(r, now) {
			t.Errorf("%s: %q, want %q; rights %+v", text, got, want, r)
		}
	}
}

// FuzzBodies reads bodies of all routes. A change of rights that is accepted leaves rights that are
// valid and have the same JSON form when they are read again.
func FuzzBodies(f *testing.F) {
	for _, text := range []string{
		`{"username":"ana","password":"x","groups":["a"]}`, `{"name":"equity","second_factor_required":true}`, `{"number":"1","type":"cash"}`,
		`{"now":true,"revoke":"x","alg":"ES256"}`, `{"action":"set_second_factor","required":true}`, `{"action":"set_password","password":"x"}`,
		`{"action":"set_rights","rights":{"scopes":["a"],"entitlements":[{"market":"*","trades":true,"depth":-1,"until":"2030-01-01T00:00:00-03:00"}],"limits":{"connections":1},"networks":["::1"]}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, into := range []any{&adminapi.AddUser{}, &adminapi.AddGroup{}, &adminapi.AddAccount{}, &adminapi.Rotate{}} {
			if f := DecodeText(text, into); f != nil && f.Reason != wire.BadJSON && f.Reason != wire.BadField {
				t.Fatalf("%T: %s", into, f.Reason)
			}
		}
		for _, action := range []string{adminapi.SetRights, adminapi.SetPassword} {
			if do, f := ChangeUser(text, action); (do == nil) == (f == nil) {
				t.Fatalf("%s has %v and %v", action, do != nil, f)
			}
		}
		var body adminapi.Change
		if DecodeText(text, &body) != nil {
			return
		}
		edit, fault := rightsEdit(&body.RightsChange)
		var r local.Rights
		if fault != nil || edit(&r) != nil {
			return
		}
		if err := r.Check(); err != nil {
			t.Fatalf("rights that are not valid were set: %v", err)
		}
		shown, err := json.Marshal(adminapi.NewRights(r))
		var again adminapi.Rights
		if err != nil || json.Unmarshal(shown, &again) != nil {
			t.Fatalf("%s: %v", shown, err)
		}
		if back, err := again.Local(); err != nil || !reflect.DeepEqual(adminapi.NewRights(back), adminapi.NewRights(r)) {
			t.Fatalf("%s is read as %+v, %v", shown, back, err)
		}
		if strings.Contains(string(shown), "null") {
			t.Fatalf("%s has a null", shown)
		}
	})
}
