package rest

import (
	"testing"

	"github.com/ruedahq/rueda/broker"
)

// TestUnknownIsLeftOut checks that unknown fields of an account are absent, not empty or zero.
func TestUnknownIsLeftOut(t *testing.T) {
	a := broker.Account{ID: "a-1", Number: "7", Type: "cash", Status: "active", Currency: "ARS"}
	want := `{"account_id":"a-1","number":"7","type":"cash","status":"active","currency":"ARS","is_default":false}`
	if got := string(appendAccount(nil, a)); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	a.Name, a.Currencies, a.Roles, a.IsDefault = "Ana", []string{"ARS"}, []string{}, true // that there is none is known
	want = `{"account_id":"a-1","number":"7","name":"Ana","type":"cash","status":"active","currency":"ARS",` +
		`"currencies":["ARS"],"roles":[],"is_default":true}`
	if got := string(appendAccount(nil, a)); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
