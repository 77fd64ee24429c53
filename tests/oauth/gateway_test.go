package oauth

import (
	"context"
	"testing"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
)

// The only user of the gateways.
const (
	username = "demo"
	password = "a password for demonstration"
)

// start runs a gateway until the test ends, and returns the URL of a proxy that validates what
// clients and the gateway exchange.
func start(t *testing.T) (rest string) {
	t.Helper()
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := data.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := data.Users.Add(t.Context(), local.NewUser{
		Username: username, Password: password, Scopes: []string{broker.ScopeAccounts, broker.ScopeRead},
	}); err != nil {
		t.Fatal(err)
	}
	proxy := openapitest.NewProxy(t)
	ready := make(chan gateway.Bound, 1)
	g, err := gateway.New(t.Context(), gateway.Config{
		Listen: "127.0.0.1:0", PublicURL: proxy.URL, Data: data, OnReady: func(b gateway.Bound) { ready <- b },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	select {
	case b := <-ready:
		return proxy.Pass(b.REST)
	case err := <-done:
		done <- nil
		t.Fatalf("run: %v", err)
	}
	panic("unreachable")
}
