package admin

import "github.com/spf13/cobra"

// teach gives a command a manual.
func teach(cmd *cobra.Command, long, example string) *cobra.Command {
	cmd.Long, cmd.Example = long, example
	return cmd
}

const (
	addHelp = `Add makes a user who can log in at once. Without --rights and --group the user may see everything:
all markets, at once, without end. A right that is granted beside that adds nothing, so begin
with --rights none for somebody who is to see less, or with --group.`
	addExample = `  rueda user add ana --config rueda/rueda.toml                          everything
  rueda user add bot --rights quotes --delay 15m --config rueda/rueda.toml
  rueda user add eva --rights none --group equity --config rueda/rueda.toml`

	grantHelp = `Grant gives one more right to data: of one market or of all, to trades, quotes or books, at once or so late, for a
time or without end. Rights add up, and the larger counts: one to data 15 minutes late adds nothing beside
one to the same data at once. Clients that are connected have it within half a second. Scopes, which say
what may be asked for at all, are set by rueda user set.`
	grantExample = `  rueda user grant ana --market BYMA --trades --quotes --config rueda/rueda.toml
  rueda user grant ana --market BYMA --depth 5 --until 2027-01-01 --config rueda/rueda.toml
  rueda user grant ana --market '*' --quotes --delay 15m --config rueda/rueda.toml`

	setHelp = `Set changes what is named and leaves the rest. --scopes takes the place of all scopes of before. A limit of 0
is that of the configuration; of the user's own and those of groups the largest counts.`
	setExample = `  rueda user set ana --scopes marketdata:read,marketdata:depth --config rueda/rueda.toml
  rueda user set ana --connections 20 --requests 600 --config rueda/rueda.toml`

	revokeHelp = `Revoke takes back what was granted, as it was granted: --market '*' takes a right to all markets, and
not those to one. Open subscriptions that are no longer allowed end, and their clients are told; the
sockets stay. What comes from a group stays, and is told.`
	revokeExample = `  rueda user revoke ana --market BYMA --config rueda/rueda.toml
  rueda user revoke ana --market '*' --delay 0s --config rueda/rueda.toml      only the right to data at once
  rueda user revoke ana --all --config rueda/rueda.toml`

	otpExample = `  rueda user otp ana --enable --config rueda/rueda.toml
  rueda user otp ana --disable --config rueda/rueda.toml`

	accountHelp = `Add gives a user an account, which GET /broker/accounts then shows. The number is the broker's own; no two
accounts have the same one.`
	accountExample = `  rueda user account add ana 100001 --config rueda/rueda.toml
  rueda user account add ana 100002 --type margin --currency USD --holder 'Ana Diaz' --default --config rueda/rueda.toml`

	addGroupHelp = `Add makes a group, which gives its scopes, limits and rights to all who are in it. Rights are granted to it
by rueda group grant, and users put into it by rueda group join.`
	addGroupExample = `  rueda group add equity --scopes marketdata:read,marketdata:depth --connections 5 --config rueda/rueda.toml`

	setGroupHelp = `Set changes what is named and leaves the rest. --scopes takes the place of all scopes of before. A limit of 0
is that of the configuration; of a user's own and those of its groups the largest counts.`
	setGroupExample = `  rueda group set equity --scopes marketdata:read --requests 600 --config rueda/rueda.toml`

	grantGroupHelp = `Grant gives all who are in a group, now or later, one more right to data. Rights add up, a user's own and
those of its groups, and the larger counts.`
	grantGroupExample = `  rueda group grant equity --market BYMA --trades --quotes --depth 5 --config rueda/rueda.toml
  rueda group grant guests --market '*' --quotes --delay 15m --config rueda/rueda.toml`

	revokeGroupHelp = `Revoke takes back what was granted to a group, as it was granted: --market '*' takes a right to all markets,
and not those to one. What its members have of their own, or from another group, stays.`
	revokeGroupExample = `  rueda group revoke equity --market BYMA --config rueda/rueda.toml
  rueda group revoke equity --all --config rueda/rueda.toml`

	removeGroupHelp = `Remove takes the group away, and what it gave to all who are in it. The users stay.`
	joinGroupHelp   = `Join puts a user into a group: what the group gives is added to what the user has already.`
	leaveGroupHelp  = `Leave takes a user out of a group. What the user has of its own, or from another group, stays.`
	listGroupsHelp  = `List prints each group, how many are in it, its scopes, its rights to data and its limits.`
)
