package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// served has what the gateway of a configuration serves, as far as rights name it.
type served struct {
	delays  []time.Duration
	markets []string
}

func servedBy(c *gateway.Config) *served {
	s := &served{delays: c.Stream.Delays}
	for i := range c.Markets {
		s.markets = append(s.markets, c.Markets[i].ID)
	}
	return s
}

func (s *served) delay(seconds int) bool {
	return seconds == 0 || slices.Contains(s.delays, time.Duration(seconds)*time.Second)
}

// market reports whether a market is served. It returns true if no markets are configured: the
// feeds list them.
func (s *served) market(name string) bool {
	return name == "*" || len(s.markets) == 0 || slices.Contains(s.markets, name)
}

// checkServed returns an error for a delay that the configuration does not serve, and prints a note
// about an unknown market. Without a configuration it checks nothing.
func (o *userOptions) checkServed(std command.Streams, e broker.Entitlement) error {
	if o.serves == nil {
		return nil
	}
	if !o.serves.delay(e.Delay) {
		wanted := shortDuration(time.Duration(e.Delay) * time.Second)
		if len(o.serves.delays) == 0 {
			return command.Fail(command.ExitUsage, fmt.Errorf("--delay %s: %s serves no delayed data", wanted, o.config), "Add it to stream.delays.")
		}
		var list []string
		for _, d := range o.serves.delays {
			list = append(list, shortDuration(d))
		}
		return command.Fail(command.ExitUsage, fmt.Errorf("--delay %s is not one of the delays that %s serves: %s", wanted, o.config, strings.Join(list, ", ")),
			"Add it to stream.delays, or use one of these.")
	}
	if !o.serves.market(e.Market) {
		fmt.Fprintf(std.Err, "Note: %s has no market %s; known are %s. A feed may still list it.\n", o.config, e.Market, strings.Join(o.serves.markets, ", "))
	}
	return nil
}

// shortDuration formats 15m0s as 15m.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// noteUseless prints a note if an existing right already includes the granted one.
func noteUseless(ctx context.Context, std command.Streams, users userBase, name string, e broker.Entitlement) error {
	u, err := users.Entry(ctx, name)
	if err != nil {
		return err
	}
	larger := func(r *local.Rights) int {
		return slices.IndexFunc(r.Entitlements, func(x broker.Entitlement) bool { return local.Describe(x) != local.Describe(e) && local.Covers(x, e) })
	}
	when := func(x broker.Entitlement) string {
		text := "at once"
		if x.Delay > 0 {
			text = shortDuration(time.Duration(x.Delay)*time.Second) + " late"
		}
		if x.Until.IsZero() {
			text += " and without end"
		}
		return text
	}
	if i := larger(&u.Own); i >= 0 {
		x := u.Own.Entitlements[i]
		fmt.Fprintf(std.Err, "Note: %s has %q, %s; this adds nothing. Remove it: rueda user revoke %s --market %s\n",
			name, local.Describe(x), when(x), command.QuoteShell(name), command.QuoteShell(x.Market))
		return nil
	}
	for _, g := range u.Groups {
		if i := larger(&g.Rights); i >= 0 {
			x := g.Entitlements[i]
			fmt.Fprintf(std.Err, "Note: %s has %q, %s, from group %s; this adds nothing.\n", name, local.Describe(x), when(x), g.Name)
			return nil
		}
	}
	return nil
}

// cannotRemove returns the error for an attempt to remove a user.
func cannotRemove(name string) error {
	return command.Fail(command.ExitUsage, errors.New("a user cannot be removed: accounts and rows of the audit log point to it"),
		"Use rueda user disable "+command.QuoteShell(name))
}
