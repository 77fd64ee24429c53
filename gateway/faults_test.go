package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestFaults requests faults of the market from a development gateway and from another one.
func TestFaults(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	for _, c := range []struct {
		name    string
		faults  func(string, market.InstrumentID) (string, error)
		request string
		asked   string
		answer  frame
	}{
		{"not one for development", nil, `{"action":"sim","fault":"gap"}`, "", frame{Type: "Error", Code: 403, Reason: "forbidden"}},
		{"its own connection", answers(asked, nil), `{"action":"sim","fault":"gap"}`, "", frame{Type: "Sim", Code: 200}},
		{"the market", answers(asked, nil), `{"action":"sim","fault":"bust"}`, "cancel of FAKE|SIM|CI", frame{Type: "Sim", Code: 200}},
		{"an instrument", answers(asked, nil), `{"action":"sim","fault":"halt","instrument":"GGAL|BYMA|24hs"}`,
			"halt of GGAL|BYMA|24hs", frame{Type: "Sim", Code: 200}},
		{"an unknown one", answers(asked, fmt.Errorf("halt: %w", market.ErrUnknownInstrument)), `{"action":"sim","fault":"halt"}`,
			"halt of FAKE|SIM|CI", frame{Type: "Error", Code: 404, Reason: "unknown_instrument"}},
		{"too often", answers(asked, &wire.Fault{Reason: wire.RateLimited}), `{"action":"sim","fault":"halt"}`,
			"halt of FAKE|SIM|CI", frame{Type: "Error", Code: 429, Reason: "rate_limited"}},
		{"something that cannot be", answers(asked, errors.New("closed already")), `{"action":"sim","fault":"close_market"}`,
			"close_market of FAKE|SIM|CI", frame{Type: "Error", Code: 422, Reason: "unsupported_option"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				data, err := gateway.OpenData(t.Context(), gateway.DataConfig{})
				if err != nil {
					t.Fatal(err)
				}
				defer data.Close()
				addAdmin(t, data.Users)
				client, bound := run(t, gateway.Config{Listener: newPipes(), Data: data, Faults: c.faults})
				root := &literalClient{http: client, rest: bound.REST, stream: bound.Stream}
				token, err := root.token(`{"grant_type":"password","username":"root","password":"root-password"}`)
				if err != nil {
					t.Fatal(err)
				}
				root.access = token.Data.AccessToken
				b := connect(t, root)
				defer b.ws.CloseNow()
				b.send(jsonText(c.request))
				if m, err := b.next(t.Context()); err != nil || m.Type != c.answer.Type || m.Code != c.answer.Code || m.Reason != c.answer.Reason {
					t.Errorf("got %+v, %v; want %+v", m, err, c.answer)
				}
				select {
				case got := <-asked:
					if got != c.asked {
						t.Errorf("asked for %q, want %q", got, c.asked)
					}
				default:
					if c.asked != "" {
						t.Errorf("nobody was asked for %q", c.asked)
					}
				}
			})
		})
	}
}

// answers returns a function that reports its arguments and returns err.
func answers(asked chan string, err error) func(string, market.InstrumentID) (string, error) {
	return func(name string, id market.InstrumentID) (string, error) {
		asked <- name + " of " + id.String()
		return "It happens", err
	}
}

// jsonText is marshalled as it is.
type jsonText string

// MarshalJSON implements json.Marshaler.
func (t jsonText) MarshalJSON() ([]byte, error) { return []byte(t), nil }

// addAdmin adds user root with the scope admin.
func addAdmin(t *testing.T, users *local.Base) {
	t.Helper()
	_, err := users.Add(context.Background(), local.NewUser{
		Username: "root", Password: "root-password", Scopes: []string{broker.ScopeRead, broker.ScopeAdmin},
	})
	if err != nil {
		t.Fatal(err)
	}
}
