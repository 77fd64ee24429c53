package gateway_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/gateway"
)

// TestIssuerIsThatOfMetadata checks that iss of access tokens is the issuer of the server metadata,
// as RFC 8414 requires and JWT libraries compare.
func TestIssuerIsThatOfMetadata(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{"https://API.broker.example/": "https://api.broker.example", "": "rueda"} {
		data, err := gateway.OpenData(t.Context(), gateway.DataConfig{PasswordWait: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer data.Close()
		if _, err := data.Users.Add(t.Context(), local.NewUser{Username: "maria", Password: "a long password of hers"}); err != nil {
			t.Fatal(err)
		}
		c, stop, ended := launch(t, gateway.Config{Data: data, PublicURL: url, Drain: time.Millisecond})
		c.enter(t, "maria", "a long password of hers")
		var claims struct {
			Iss string `json:"iss"`
		}
		payload, err := base64.RawURLEncoding.DecodeString(strings.Split(c.access, ".")[1])
		if err == nil {
			err = json.Unmarshal(payload, &claims)
		}
		if err != nil || claims.Iss != want {
			t.Errorf("public_url %q: iss %q, %v; want %q", url, claims.Iss, err, want)
		}
		answer, err := c.http.Get(c.rest + "/.well-known/oauth-authorization-server")
		if err != nil {
			t.Fatal(err)
		}
		var metadata struct {
			Issuer string `json:"issuer"`
		}
		err = json.NewDecoder(answer.Body).Decode(&metadata)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK || err != nil || url != "" && metadata.Issuer != claims.Iss {
			t.Errorf("public_url %q: %s, issuer %q, %v; iss is %q", url, answer.Status, metadata.Issuer, err, claims.Iss)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
