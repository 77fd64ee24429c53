package admin

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/api/adminapi"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/config"
)

// grantFlags has the flags of an entitlement.
type grantFlags struct {
	market         string
	trades, quotes bool
	depth          string
	instruments    int
	delay          time.Duration
	from, until    string
}

func (g *grantFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&g.market, "market", "", "market, such as BYMA, or '*' for all")
	f.BoolVar(&g.trades, "trades", false, "trades")
	f.BoolVar(&g.quotes, "quotes", false, "best bid and offer")
	f.StringVar(&g.depth, "depth", "", "deepest order book: 1, 5, 10, 25 or all")
	f.IntVar(&g.instruments, "instruments", 0, "number of instruments at a time on a connection (default: all)")
	f.DurationVar(&g.delay, "delay", 0, "delay of the data, one of stream.delays of the configuration, such as 15m")
	f.StringVar(&g.from, "from", "", "from this day or time on, such as 2026-12-01 or 2026-12-01T10:00:00-03:00; a day begins in UTC")
	f.StringVar(&g.until, "until", "", "up to this day or time, exclusive")
}

// entitlement returns the entitlement of the flags.
func (g *grantFlags) entitlement() (e broker.Entitlement, err error) {
	if g.market == "" {
		return e, command.Fail(command.ExitUsage, errors.New("which market?"), "Use --market NAME, or --market '*' for all.")
	}
	e = broker.Entitlement{Market: g.market, Trades: g.trades, Quotes: g.quotes, Instruments: g.instruments}
	switch {
	case g.depth == "":
	case g.depth == "all":
		e.Depth = -1
	default:
		n, err := strconv.Atoi(g.depth)
		if err != nil || n == 0 || !slices.Contains(command.BookDepths, n) {
			return e, command.Fail(command.ExitUsage, fmt.Errorf("--depth %q is not one of 1, 5, 10, 25 and all", g.depth), "")
		}
		e.Depth = n
	}
	if !e.Trades && !e.Quotes && e.Depth == 0 {
		return e, command.Fail(command.ExitUsage, errors.New("no data is named"), "Use --trades, --quotes or --depth.")
	}
	if e.Delay, err = delaySeconds(g.delay); err != nil {
		return e, err
	}
	if e.From, err = parseTime("--from", g.from); err != nil {
		return e, err
	}
	if e.Until, err = parseTime("--until", g.until); err != nil {
		return e, err
	}
	if !e.Until.IsZero() && !time.Now().Before(e.Until) {
		return e, command.Fail(command.ExitUsage, fmt.Errorf("--until %s is in the past", g.until), "")
	}
	return e, nil
}

// parseTime reads a day or a time; "" is the zero Time.
func parseTime(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, form := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(form, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, command.Fail(command.ExitUsage, fmt.Errorf("%s %q is not a day or time", flag, text), "Write 2026-12-31 or 2026-12-31T17:00:00-03:00.")
}

func delaySeconds(d time.Duration) (int, error) {
	if d < 0 || d%time.Second != 0 || d > config.MaxDelay {
		return 0, command.Fail(command.ExitUsage, fmt.Errorf("a delay has whole seconds, up to %v, not %v", config.MaxDelay, d), "")
	}
	return int(d / time.Second), nil
}

// revokeFlags has the flags that select existing entitlements.
type revokeFlags struct {
	market string
	delay  time.Duration
	all    bool
}

func (r *revokeFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.market, "market", "", "rights to this market, as they were granted: '*' means those granted for all markets")
	f.DurationVar(&r.delay, "delay", 0, "only those with this delay; 0s: only those to live data")
	f.BoolVar(&r.all, "all", false, "all rights to data")
}

// which returns a function that reports whether an entitlement is selected.
func (r *revokeFlags) which(cmd *cobra.Command) (func(broker.Entitlement) bool, error) {
	if (r.market == "") != r.all {
		return nil, command.Fail(command.ExitUsage, errors.New("which rights?"), "Use --market NAME, or --all.")
	}
	delay, err := delaySeconds(r.delay)
	if err != nil {
		return nil, err
	}
	byDelay := cmd.Flags().Changed("delay")
	return func(e broker.Entitlement) bool {
		return (r.all || e.Market == r.market) && (!byDelay || e.Delay == delay)
	}, nil
}

// setFlags has the flags of scopes and limits.
type setFlags struct {
	scopes   []string
	networks []string
	limits   broker.Limits
}

func (s *setFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&s.scopes, "scopes", nil, "new scopes, separated by commas; '' for none")
	f.StringSliceVar(&s.networks, "networks", nil, "networks or addresses of the clients, separated by commas; '' for any")
	f.IntVar(&s.limits.Connections, "connections", 0, "connections at a time; 0: the configuration's")
	f.IntVar(&s.limits.Subscriptions, "subscriptions", 0, "subscriptions of a connection; 0: the configuration's")
	f.IntVar(&s.limits.MessagesPerSecond, "messages", 0, "messages a second of a connection; 0: the configuration's")
	f.IntVar(&s.limits.RequestsPerMinute, "requests", 0, "requests a minute; 0: the configuration's")
}

// knownScopes are the scopes that the gateway checks.
var knownScopes = []string{
	broker.ScopeAccounts, broker.ScopeRead, broker.ScopeDepth, broker.ScopeWildcard, broker.ScopeHistory, broker.ScopeAdmin,
}

// edit returns a function that changes the rights that the flags name.
func (s *setFlags) edit(cmd *cobra.Command, needed bool) (func(*local.Rights) error, error) {
	changed := cmd.Flags().Changed
	if needed && !slices.ContainsFunc([]string{"scopes", "networks", "connections", "subscriptions", "messages", "requests"}, changed) {
		return nil, command.Fail(command.ExitUsage, errors.New("nothing to set"), "Use --scopes, --networks, --connections, --subscriptions, --messages or --requests.")
	}
	for _, scope := range s.scopes {
		if !slices.Contains(knownScopes, scope) {
			return nil, command.Fail(command.ExitUsage, fmt.Errorf("there is no scope %q", scope), "The scopes are "+strings.Join(knownScopes, ", ")+".")
		}
	}
	for name, n := range map[string]int{"connections": s.limits.Connections, "subscriptions": s.limits.Subscriptions, "messages": s.limits.MessagesPerSecond, "requests": s.limits.RequestsPerMinute} {
		if n < 0 || n > config.MaxCount {
			return nil, command.Fail(command.ExitUsage, fmt.Errorf("--%s %d is not from 0 to %d", name, n, config.MaxCount), "")
		}
	}
	var networks []netip.Prefix
	for _, text := range s.networks {
		p, err := broker.ParseNetwork(strings.TrimSpace(text))
		if err != nil {
			return nil, command.Fail(command.ExitUsage, fmt.Errorf("--networks: %w", err), "")
		}
		networks = append(networks, p)
	}
	return func(r *local.Rights) error {
		if changed("networks") {
			r.Networks = networks
		}
		if changed("scopes") {
			r.Scopes = s.scopes
		}
		for name, l := range map[string]struct {
			to   *int
			from int
		}{
			"connections": {&r.Limits.Connections, s.limits.Connections}, "subscriptions": {&r.Limits.Subscriptions, s.limits.Subscriptions},
			"messages": {&r.Limits.MessagesPerSecond, s.limits.MessagesPerSecond}, "requests": {&r.Limits.RequestsPerMinute, s.limits.RequestsPerMinute},
		} {
			if changed(name) {
				*l.to = l.from
			}
		}
		return nil
	}, nil
}

// doneOr prints what was done, or that there was nothing to do.
func doneOr(std command.Streams, changed bool, nothing, format string, args ...any) error {
	if !changed {
		fmt.Fprintln(std.Err, nothing)
		return nil
	}
	return done(std, format, args...)
}

func (o *userOptions) set(std command.Streams) *cobra.Command {
	var s setFlags
	var expires string
	var cmd *cobra.Command
	cmd = o.command(std, "set NAME", "Set a user's own scopes, networks, limits and end", command.ExactArgs("name of the user"),
		func(ctx context.Context, std command.Streams, users userBase, args []string) error {
			edit, err := s.edit(cmd, expires == "")
			if err != nil {
				return err
			}
			end, err := accountEnd(expires)
			if err != nil {
				return err
			}
			changed, err := users.EditRights(ctx, args[0], edit)
			if err != nil {
				return err
			}
			if expires != "" {
				also, err := users.SetExpiry(ctx, args[0], end)
				if err != nil {
					return err
				}
				changed = changed || also
			}
			return doneOr(std, changed, "Nothing to change.", "Changed %s", args[0])
		})
	s.add(cmd)
	cmd.Flags().StringVar(&expires, "expires", "", "day or time at which the account ends, such as 2026-12-31, or never")
	return teach(cmd, setHelp, setExample)
}

// accountEnd reads the flag --expires; never is the zero time.
func accountEnd(text string) (time.Time, error) {
	if text == "never" {
		return time.Time{}, nil
	}
	return parseTime("--expires", text)
}

func (o *userOptions) grant(std command.Streams) *cobra.Command {
	var g grantFlags
	cmd := o.command(std, "grant NAME", "Grant a user a further right to data", command.ExactArgs("name of the user"),
		func(ctx context.Context, std command.Streams, users userBase, args []string) error {
			e, err := g.entitlement()
			if err == nil {
				err = o.checkServed(std, e)
			}
			if err != nil {
				return err
			}
			changed, err := users.EditRights(ctx, args[0], func(r *local.Rights) error { r.Grant(e); return nil })
			if err != nil {
				return err
			}
			if err := noteUseless(ctx, std, users, args[0], e); err != nil {
				return err
			}
			return doneOr(std, changed, args[0]+" already has that right.", "Granted %s: %s", args[0], local.Describe(e))
		})
	g.add(cmd)
	return teach(cmd, grantHelp, grantExample)
}

func (o *userOptions) revoke(std command.Streams) *cobra.Command {
	var r revokeFlags
	var cmd *cobra.Command
	cmd = o.command(std, "revoke NAME", "Revoke rights to data from a user", command.ExactArgs("name of the user"),
		func(ctx context.Context, std command.Streams, users userBase, args []string) error {
			which, err := r.which(cmd)
			if err != nil {
				return err
			}
			var gone []broker.Entitlement
			_, err = users.EditRights(ctx, args[0], func(r *local.Rights) error { gone = r.Revoke(which); return nil })
			if err != nil {
				return err
			}
			left, err := users.Entry(ctx, args[0])
			if err != nil {
				return err
			}
			for _, e := range gone {
				if err := done(std, "Revoked from %s: %s", args[0], local.Describe(e)); err != nil {
					return err
				}
			}
			still := false
			for _, g := range left.Groups {
				for _, e := range g.Entitlements {
					if which(e) {
						still = true
						fmt.Fprintf(std.Err, "%s still has %s, from group %s.\n", args[0], local.Describe(e), g.Name)
					}
				}
			}
			if len(gone) == 0 && !still {
				fmt.Fprintf(std.Err, "%s has no such right.\n", args[0])
			}
			return nil
		})
	r.add(cmd)
	return teach(cmd, revokeHelp, revokeExample)
}

// show prints a user: in JSON the object of the administrator's API, otherwise a row for each
// property and right, with the source of a right.
func (o *userOptions) show(ctx context.Context, std command.Streams, users userBase, args []string) error {
	w, err := o.out.Open(std, "what", "value", "from")
	if err != nil {
		return err
	}
	u, err := users.Entry(ctx, args[0])
	if err != nil {
		return err
	}
	seen := adminapi.NewUser(&u, time.Now())
	factor := "none"
	if u.SecondFactor {
		n, err := users.RecoveryCodes(ctx, u.ID)
		if err != nil {
			return err
		}
		seen.RecoveryCodes = &n
		factor = fmt.Sprintf("one-time passwords, %d recovery codes left", n)
		if u.FactorLocked {
			factor += ", locked until there is a new password"
		}
	}
	for _, g := range u.Groups {
		if g.RequiredFactor {
			factor += ", required by " + g.Name
		}
	}
	errs := []error{w.Object(seen)}
	row := func(what, value string, from ...string) {
		errs = append(errs, w.Cells(what, value, strings.Join(from, " ")))
	}
	row("user", u.Username)
	row("id", u.ID)
	row("status", status(&u))
	row("since", u.Created.Format(time.DateOnly))
	if !u.Expires.IsZero() {
		row("expires", u.Expires.Format(time.RFC3339))
	}
	if u.MustChange {
		row("password", "must be changed before a login")
	}
	row("second factor", factor)
	for _, g := range u.Groups {
		row("group", g.Name)
	}
	for _, s := range u.Scopes {
		row("scope", s, sources(&u, func(r *local.Rights) bool { return slices.Contains(r.Scopes, s) })...)
	}
	for _, e := range u.Entitlements {
		text := local.Describe(e)
		row("right", text+validity(&e, time.Now()), sources(&u, func(r *local.Rights) bool {
			return slices.ContainsFunc(r.Entitlements, func(x broker.Entitlement) bool { return local.Describe(x) == text })
		})...)
	}
	for _, p := range u.Networks {
		row("network", p.String(), sources(&u, func(r *local.Rights) bool { return slices.Contains(r.Networks, p) })...)
	}
	for _, l := range limitsOf(&u.Limits) {
		if l.value > 0 {
			row("limit", fmt.Sprintf("%s %d", l.name, l.value), sources(&u, func(r *local.Rights) bool {
				return slices.Contains(limitsOf(&r.Limits), l)
			})...)
		}
	}
	return errors.Join(append(errs, w.Close())...)
}

// sources returns where a right comes from: "own", and names of groups.
func sources(u *local.Entry, has func(*local.Rights) bool) (from []string) {
	if has(&u.Own) {
		from = append(from, "own")
	}
	for i := range u.Groups {
		if has(&u.Groups[i].Rights) {
			from = append(from, u.Groups[i].Name)
		}
	}
	return from
}

func validity(e *broker.Entitlement, now time.Time) string {
	switch {
	case e.Valid(now):
		return ""
	case now.Before(e.From):
		return " (not yet)"
	}
	return " (over)"
}

// namedLimit is a limit with the name of its flag.
type namedLimit struct {
	name  string
	value int
}

func limitsOf(l *broker.Limits) []namedLimit {
	return []namedLimit{
		{"connections", l.Connections}, {"subscriptions", l.Subscriptions},
		{"messages", l.MessagesPerSecond}, {"requests", l.RequestsPerMinute},
	}
}
