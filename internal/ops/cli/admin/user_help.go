package admin

import "github.com/spf13/cobra"

// teach sets the long help and the examples of a command.
func teach(cmd *cobra.Command, long, example string) *cobra.Command {
	cmd.Long, cmd.Example = long, example
	return cmd
}

const (
	addHelp = `Add creates a user. The rights are those of --rights, of the groups of --group, or both. Without
either flag, it asks at a terminal; without a terminal, it fails. With all, the user may
see all markets, without delay and without an end: a right that is granted later adds nothing. For
fewer rights, begin with --rights none or --group.`
	addExample = `  rueda user add ana --config rueda/rueda.toml                asks for rights
  rueda user add leo --rights all --config rueda/rueda.toml   everything
  rueda user add bot --rights quotes --delay 15m --config rueda/rueda.toml
  rueda user add eva --rights none --group equity --config rueda/rueda.toml`

	grantHelp = `Grant adds a right to data: of one market or all, to trades, quotes or books, live or delayed, for a
time or without an end. Rights add up, and a larger right includes a smaller one: a right to delayed data
adds nothing to a right to the same live data. Connected clients have it within half a second. Scopes,
which define the permitted requests, are set by rueda user set.`
	grantExample = `  rueda user grant ana --market BYMA --trades --quotes --config rueda/rueda.toml
  rueda user grant ana --market BYMA --depth 5 --until 2027-01-01 \
    --config rueda/rueda.toml
  rueda user grant ana --market '*' --quotes --delay 15m \
    --config rueda/rueda.toml`

	setHelp = `Set changes what the flags name. --scopes replaces all scopes. A limit of 0 is that of the
configuration. If the user and several groups have a limit, the largest applies.

--networks replaces the user's list of networks. A client must be in one of the networks of the user
or of the user's groups, if there are any. A running gateway closes other sockets within a second.

At --expires the account ends: logins are refused, and tokens and sockets end. A day begins in UTC.`
	setExample = `  rueda user set ana --scopes marketdata:read,marketdata:depth \
    --config rueda/rueda.toml
  rueda user set ana --connections 20 --requests 600 --config rueda/rueda.toml
  rueda user set ana --networks 192.0.2.0/24,2001:db8:7::/48 \
    --config rueda/rueda.toml
  rueda user set ana --expires 2026-12-31 --config rueda/rueda.toml`

	revokeHelp = `Revoke removes rights as they were granted: --market '*' removes a right to all markets, and not those
to one. Subscriptions that are no longer allowed end, with a message to their clients; the sockets
stay open. Rights from a group stay, and are printed.`
	revokeExample = `  rueda user revoke ana --market BYMA --config rueda/rueda.toml
  rueda user revoke ana --market '*' --delay 0s --config rueda/rueda.toml
  rueda user revoke ana --all --config rueda/rueda.toml`

	otpExample = `  rueda user otp ana --enable --config rueda/rueda.toml
  rueda user otp ana --disable --config rueda/rueda.toml`

	accountHelp = `Add gives a user an account, which GET /broker/accounts returns. The number is the broker's own. No two
accounts have the same number.`
	accountExample = `  rueda user account add ana 100001 --config rueda/rueda.toml
  rueda user account add ana 100002 --type margin --currency USD \
    --holder 'Ana Diaz' --default --config rueda/rueda.toml`

	addGroupHelp = `Add creates a group. Its members have its scopes, limits and rights. Rights are granted to it by
rueda group grant, and users are added by rueda group join.`
	addGroupExample = `  rueda group add equity --scopes marketdata:read,marketdata:depth \
    --connections 5 --config rueda/rueda.toml`

	setGroupHelp = `Set changes what the flags name. --scopes replaces all scopes. A limit of 0 is that of the
configuration. If a user and its groups have a limit, the largest applies. With --second-factor
required, members without a second factor are logged out and can only enrol one.`
	setGroupExample = `  rueda group set equity --scopes marketdata:read --requests 600 \
    --config rueda/rueda.toml
  rueda group set traders --second-factor required --config rueda/rueda.toml`

	grantGroupHelp = `Grant gives all present and future members of a group a further right to data. The rights of a user and
its groups add up, and the largest applies.`
	grantGroupExample = `  rueda group grant equity --market BYMA --trades --quotes --depth 5 \
    --config rueda/rueda.toml
  rueda group grant public --market '*' --quotes --delay 15m \
    --config rueda/rueda.toml`

	revokeGroupHelp = `Revoke removes rights of a group as they were granted: --market '*' removes a right to all markets, and
not those to one. The members' own rights, and those from other groups, stay.`
	revokeGroupExample = `  rueda group revoke equity --market BYMA --config rueda/rueda.toml
  rueda group revoke equity --all --config rueda/rueda.toml`

	removeGroupHelp = `Remove deletes the group and the rights that its members have from it. The users stay.`
	joinGroupHelp   = `Join adds a user to a group. The user's own rights stay, and those of the group are added.`
	leaveGroupHelp  = `Leave removes a user from a group. The user's own rights, and those from other groups, stay.`
	listGroupsHelp  = `List prints each group with its number of members, scopes, rights to data and limits.`
)
