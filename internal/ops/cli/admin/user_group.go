package admin

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/api/adminapi"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

func NewGroup(std command.Streams) *cobra.Command {
	var o userOptions
	cmd := &cobra.Command{
		Use:   "group",
		Short: "Manage the rights of many users with groups",
		Long: `Group works on the same database as user. Members of a group have its scopes, rights and
limits in addition to their own. Of each limit, the largest applies. A running gateway applies a
change to all members within half a second, and ends no login.`,
		Example: `  rueda group add equity --scopes marketdata:read --config rueda/rueda.toml
  rueda group grant equity --market BYMA --trades --quotes --depth 5 \
    --config rueda/rueda.toml
  rueda group join equity ana --config rueda/rueda.toml
  rueda group list --config rueda/rueda.toml`,
		Args: command.Subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	o.places(cmd)
	group, both := command.ExactArgs("name of the group"), command.ExactArgs("name of the group", "name of the user")
	cmd.AddCommand(o.addGroup(std), o.setGroup(std), o.grantGroup(std), o.revokeGroup(std),
		teach(o.command(std, "remove GROUP", "Remove a group and the rights of its members that come from it", group, removeGroup), removeGroupHelp, "  rueda group remove equity --config rueda/rueda.toml"),
		teach(o.command(std, "join GROUP NAME", "Add a user to a group", both, joinGroup), joinGroupHelp, "  rueda group join equity ana --config rueda/rueda.toml"),
		teach(o.command(std, "leave GROUP NAME", "Remove a user from a group", both, leaveGroup), leaveGroupHelp, "  rueda group leave equity ana --config rueda/rueda.toml"),
		teach(o.rows(o.command(std, "list", "List the groups and their rights", cobra.NoArgs, o.listGroups)), listGroupsHelp, "  rueda group list --config rueda/rueda.toml"))
	return cmd
}

// factorFlag is the flag for the second factor of a group.
type factorFlag struct{ word string }

func (f *factorFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.word, "second-factor", "", "required or optional for the members")
}

func (f *factorFlag) check() error {
	if f.word != "" && f.word != "required" && f.word != "optional" {
		return command.Fail(command.ExitUsage, fmt.Errorf("--second-factor %q is neither required nor optional", f.word), "")
	}
	return nil
}

// apply sets what the flag says, and reports whether that changed anything.
func (f *factorFlag) apply(ctx context.Context, users userBase, group string) (changed bool, err error) {
	if f.word == "" {
		return false, nil
	}
	return users.RequireFactor(ctx, group, f.word == "required")
}

func (o *userOptions) addGroup(std command.Streams) *cobra.Command {
	var s setFlags
	var f factorFlag
	var cmd *cobra.Command
	var r local.Rights
	cmd = o.creating(std, "add GROUP", "Add a group; creates the database if it does not exist", command.ExactArgs("name of the group"),
		func(name string, _ userBase) error {
			if err := errors.Join(local.CheckGroupName(name), f.check()); err != nil {
				return err
			}
			edit, err := s.edit(cmd, false)
			if err != nil {
				return err
			}
			return edit(&r)
		},
		func(ctx context.Context, std command.Streams, users userBase, args []string) error {
			if err := users.AddGroup(ctx, args[0], r); err != nil {
				return err
			}
			if _, err := f.apply(ctx, users, args[0]); err != nil {
				return err
			}
			return done(std, "Added group %s", args[0])
		})
	s.add(cmd)
	f.add(cmd)
	return teach(cmd, addGroupHelp, addGroupExample)
}

func (o *userOptions) setGroup(std command.Streams) *cobra.Command {
	var s setFlags
	var f factorFlag
	var cmd *cobra.Command
	cmd = o.command(std, "set GROUP", "Set a group's scopes and limits", command.ExactArgs("name of the group"),
		func(ctx context.Context, std command.Streams, users userBase, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			edit, err := s.edit(cmd, f.word == "")
			if err != nil {
				return err
			}
			changed, err := users.EditGroup(ctx, args[0], edit)
			if err != nil {
				return err
			}
			also, err := f.apply(ctx, users, args[0])
			if err != nil {
				return err
			}
			return doneOr(std, changed || also, "Nothing to change.", "Changed group %s", args[0])
		})
	s.add(cmd)
	f.add(cmd)
	return teach(cmd, setGroupHelp, setGroupExample)
}

func (o *userOptions) grantGroup(std command.Streams) *cobra.Command {
	var g grantFlags
	cmd := o.command(std, "grant GROUP", "Grant a group a right to data", command.ExactArgs("name of the group"),
		func(ctx context.Context, std command.Streams, users userBase, args []string) error {
			e, err := g.entitlement()
			if err == nil {
				err = o.checkServed(std, e)
			}
			if err != nil {
				return err
			}
			changed, err := users.EditGroup(ctx, args[0], func(r *local.Rights) error { r.Grant(e); return nil })
			if err != nil {
				return err
			}
			return doneOr(std, changed, "Group "+args[0]+" already has that right.", "Granted group %s: %s", args[0], local.Describe(e))
		})
	g.add(cmd)
	return teach(cmd, grantGroupHelp, grantGroupExample)
}

func (o *userOptions) revokeGroup(std command.Streams) *cobra.Command {
	var r revokeFlags
	var cmd *cobra.Command
	cmd = o.command(std, "revoke GROUP", "Revoke rights to data from a group", command.ExactArgs("name of the group"),
		func(ctx context.Context, std command.Streams, users userBase, args []string) error {
			which, err := r.which(cmd)
			if err != nil {
				return err
			}
			var lines []string
			changed, err := users.EditGroup(ctx, args[0], func(r *local.Rights) error {
				lines = nil
				for _, e := range r.Revoke(which) {
					lines = append(lines, fmt.Sprintf("Revoked from group %s: %s", args[0], local.Describe(e)))
				}
				return nil
			})
			if err != nil {
				return err
			}
			return doneOr(std, changed, "Group "+args[0]+" has no such right.", "%s", strings.Join(lines, "\n"))
		})
	r.add(cmd)
	return teach(cmd, revokeGroupHelp, revokeGroupExample)
}

func removeGroup(ctx context.Context, std command.Streams, users userBase, args []string) error {
	n, err := users.RemoveGroup(ctx, args[0])
	if err != nil {
		return err
	}
	return done(std, "Removed group %s, members: %d", args[0], n)
}

func joinGroup(ctx context.Context, std command.Streams, users userBase, args []string) error {
	changed, err := users.Join(ctx, args[1], args[0])
	if err != nil {
		return err
	}
	return doneOr(std, changed, args[1]+" is already in it.", "%s is in group %s", args[1], args[0])
}

func leaveGroup(ctx context.Context, std command.Streams, users userBase, args []string) error {
	changed, err := users.Leave(ctx, args[1], args[0])
	if err != nil {
		return err
	}
	return doneOr(std, changed, args[1]+" is not in it.", "%s left group %s", args[1], args[0])
}

// listGroups prints a row for each group.
func (o *userOptions) listGroups(ctx context.Context, std command.Streams, users userBase, _ []string) error {
	w, err := o.out.Open(std, "group", "members", "scopes", "rights", "limits")
	if err != nil {
		return err
	}
	groups, err := users.Groups(ctx)
	if err != nil {
		return err
	}
	if len(groups) == 0 {
		fmt.Fprintln(std.Err, "No groups yet: rueda group add GROUP adds one.")
	}
	for _, g := range groups {
		rights := make([]string, len(g.Entitlements))
		for i, e := range g.Entitlements {
			rights[i] = local.Describe(e)
		}
		var limits []string
		for _, l := range limitsOf(&g.Limits) {
			if l.value > 0 {
				limits = append(limits, fmt.Sprintf("%s=%d", l.name, l.value))
			}
		}
		if len(g.Networks) > 0 {
			limits = append(limits, "networks="+broker.FormatNetworks(g.Networks))
		}
		if g.RequiredFactor {
			limits = append(limits, "second-factor=required")
		}
		err := w.Row(adminapi.NewGroup(&g), g.Name, strconv.Itoa(g.Members), strings.Join(g.Scopes, " "), strings.Join(rights, "; "), strings.Join(limits, " "))
		if err != nil {
			return err
		}
	}
	return w.Close()
}
