package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/config"
)

func newUserCheck(std command.Streams, o *userOptions) *cobra.Command {
	var fromStdin bool
	var otp string
	cmd := &cobra.Command{
		Use:   "check NAME",
		Short: "Log in to the configured user base and show what a gateway sees",
		Long: `Check logs in as a user to the user base of [users]. Like a gateway, it reads the user again
by id, the groups, and the accounts of [accounts], and prints the results. It needs no
running gateway and issues no token. It names the groups without [[users.right]].

The user base may count a failed attempt.`,
		Example: `  rueda user check ana --config rueda/rueda.toml
  pass show ana |
    rueda user check ana --password-stdin --config rueda/rueda.toml`,
		Args: command.ExactArgs("name of the user"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.config == "" {
				return command.Fail(command.ExitUsage, errors.New("no user base is named"), "Use --config FILE.")
			}
			quiet := std
			quiet.Err = io.Discard // this command prints what the log would contain
			s, err := command.LoadConfig(cmd.Context(), quiet, o.config)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Users.Close()) }()
			var users *local.Base // nil: not needed
			if s.Users.NeedsData() {
				data, err := o.open(cmd.Context(), std, false)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, data.Close()) }()
				users, s.Gateway.Users, s.Gateway.Accounts = data.Users, data.Users, data.Users
			}
			if err := command.UseUsers(cmd.Context(), s, users); err != nil {
				return err
			}
			login := broker.Login{Username: args[0], OTP: otp}
			if login.Password, err = command.ReadPassword(std, "Password of "+args[0], fromStdin, nil); err != nil {
				return err
			}
			return checkUser(cmd.Context(), std, s, users, login)
		},
	}
	cmd.Flags().BoolVar(&fromStdin, "password-stdin", false, "read the password from standard input")
	cmd.Flags().StringVar(&otp, "otp", "", "one-time password, if the user needs one")
	return cmd
}

// checkUser does what a gateway does for a login, a refresh and GET /broker/accounts.
func checkUser(ctx context.Context, std command.Streams, s *config.Settings, users userBase, login broker.Login) error {
	begun := time.Now()
	user, err := s.Gateway.Users.Authenticate(ctx, login)
	took := time.Since(begun)
	if err != nil {
		status := command.ExitUnreachable
		if errors.Is(err, broker.ErrSecondFactor) || errors.Is(err, broker.ErrInvalidCredentials) {
			status = command.ExitRefused
		}
		return command.Fail(status, err, s.Users.Advice(err))
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s may log in (%s, %v)\n", user.Username, s.Users.Type, took.Round(time.Millisecond))
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&out, "%-13s%s\n", name, fmt.Sprintf(format, args...))
	}
	row("id", "%s", user.ID)
	row("version", "%d", user.Version)
	if list, ok, err := groupsOf(ctx, s, users, &user); err != nil {
		row("groups", "not read: %v", err)
	} else if ok {
		describeGroups(row, list)
	}
	row("scopes", "%s", cmp.Or(strings.Join(user.Scopes, " "), "none"))
	for i, e := range user.Entitlements {
		row([]string{"entitled", ""}[min(i, 1)], "%s", describeEntitlement(e))
	}
	if len(user.Entitlements) == 0 {
		row("entitled", "to no market data")
	}
	if l := user.Limits; l != (broker.Limits{}) {
		row("limits", "%d connections, %d subscriptions, %d messages a second, %d requests a minute; 0 is the gateway's",
			l.Connections, l.Subscriptions, l.MessagesPerSecond, l.RequestsPerMinute)
	}
	if len(user.Networks) > 0 {
		row("networks", "%s", broker.FormatNetworks(user.Networks))
	}
	if !user.Expires.IsZero() {
		row("ends", "%s", user.Expires.UTC().Format(time.RFC3339))
	}
	again, err := s.Gateway.Users.User(ctx, user.ID)
	problem := ""
	switch {
	case err != nil:
		problem = fmt.Sprintf("read by id %s: %v: logins would not be refreshed", user.ID, err)
	case again.Version != user.Version:
		problem = fmt.Sprintf("read by id, the version is %d: logins would end at the first refresh", again.Version)
	case !reflect.DeepEqual(again, user):
		problem = "read by id, the user differs from the one at the login: " + describeDifference(user, again)
	default:
		row("by id", "the same")
	}
	if s.Gateway.Accounts == nil {
		row("accounts", "none are configured")
	} else if list, err := s.Gateway.Accounts.ListAccounts(ctx, user.ID); err != nil {
		problem = cmp.Or(problem, fmt.Sprintf("read the accounts: %v", err))
	} else {
		row("accounts", "%d", len(list))
		for _, a := range list {
			row("", "%s %s %s %s", a.Number, a.Type, a.Status, a.Currency)
		}
	}
	if err := command.WriteText(std.Out, out.String()); err != nil {
		return err
	}
	if problem != "" {
		return command.Fail(command.ExitBadData, errors.New(problem), "")
	}
	return nil
}

// groupsOf returns the groups of a user who has just logged in, if the user base has groups.
func groupsOf(ctx context.Context, s *config.Settings, users userBase, user *broker.User) (list []broker.Membership, ok bool, err error) {
	if !s.Users.BuiltIn() {
		return s.Users.Groups(ctx, user.ID)
	}
	entry, err := users.Entry(ctx, user.Username)
	for _, g := range entry.Groups {
		list = append(list, broker.Membership{Group: g.Name, Granted: true})
	}
	return list, true, err
}

func describeGroups(row func(name, format string, args ...any), list []broker.Membership) {
	if len(list) == 0 {
		row("groups", "none")
	}
	for i, m := range list {
		note := ""
		if !m.Granted {
			note = " (no [[users.right]] matches)"
		}
		row([]string{"groups", ""}[min(i, 1)], "%s%s", printable(m.Group), note)
	}
}

func describeEntitlement(e broker.Entitlement) string {
	var what []string
	for _, w := range []struct {
		is   bool
		text string
	}{{e.Trades, "trades"}, {e.Quotes, "quotes"}, {e.Depth < 0, "books"}, {e.Depth > 0, fmt.Sprintf("books to depth %d", e.Depth)}} {
		if w.is {
			what = append(what, w.text)
		}
	}
	text := "market " + e.Market + ": " + cmp.Or(strings.Join(what, ", "), "nothing")
	if e.Delay > 0 {
		text += fmt.Sprintf(", %v late", time.Duration(e.Delay)*time.Second)
	}
	if !e.From.IsZero() {
		text += ", from " + e.From.Format(time.RFC3339)
	}
	if !e.Until.IsZero() {
		text += ", until " + e.Until.Format(time.RFC3339)
	}
	return text
}

// describeDifference names the fields in which two users differ.
func describeDifference(a, b broker.User) string {
	var names []string
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		if !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			names = append(names, strings.ToLower(x.Type().Field(i).Name))
		}
	}
	return strings.Join(names, ", ")
}
