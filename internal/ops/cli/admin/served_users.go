package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/api/adminapi"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/cli/operation"
)

// servedUsers is the user base of a running gateway, over its listener for administrators.
type servedUsers struct{ gateway *operation.Client }

// find returns the user with a name.
func (s *servedUsers) find(ctx context.Context, username string) (adminapi.User, error) {
	var page adminapi.Users
	if username == "" {
		return adminapi.User{}, broker.ErrNotFound
	}
	if err := s.gateway.Send(ctx, http.MethodGet, "/admin/users?name="+url.QueryEscape(username), nil, &page); err != nil {
		return adminapi.User{}, err
	}
	if len(page.Users) == 0 {
		return adminapi.User{}, broker.ErrNotFound
	}
	return page.Users[0], nil
}

// entry returns a user as the user base has it. groups are all groups.
func entry(u *adminapi.User, groups []local.Group) (local.Entry, error) {
	own, err := u.Rights.Local()
	e := local.Entry{Own: own, Disabled: u.Status == "disabled", SecondFactor: u.SecondFactor, FactorLocked: u.FactorLocked, MustChange: u.MustChange, Unreadable: u.Unreadable, Created: u.Created}
	e.User = broker.User{
		ID: u.ID, Username: u.Username, Expires: u.Expires, Limits: own.Limits,
		Scopes: slices.Clone(own.Scopes), Entitlements: slices.Clone(own.Entitlements), Networks: slices.Clone(own.Networks),
	}
	for _, g := range groups {
		if slices.Contains(u.Groups, g.Name) {
			e.Groups = append(e.Groups, g)
			e.User.Grant(broker.Rights(g.Rights))
		}
	}
	return e, err
}

// List implements userBase.
func (s *servedUsers) List(ctx context.Context) ([]local.Entry, error) {
	groups, err := s.Groups(ctx)
	if err != nil {
		return nil, err
	}
	var all []local.Entry
	cursor := ""
	for {
		var page adminapi.Users
		if err := s.gateway.Send(ctx, http.MethodGet, "/admin/users?limit=1000&cursor="+url.QueryEscape(cursor), nil, &page); err != nil {
			return nil, err
		}
		for i := range page.Users {
			e, err := entry(&page.Users[i], groups)
			if err != nil {
				return nil, err
			}
			all = append(all, e)
		}
		if cursor = page.Next; cursor == "" {
			return all, nil
		}
	}
}

// Entry implements userBase.
func (s *servedUsers) Entry(ctx context.Context, username string) (local.Entry, error) {
	u, err := s.find(ctx, username)
	if err != nil {
		return local.Entry{}, err
	}
	var groups []local.Group
	if len(u.Groups) > 0 {
		if groups, err = s.Groups(ctx); err != nil {
			return local.Entry{}, err
		}
	}
	return entry(&u, groups)
}

// RecoveryCodes implements userBase.
func (s *servedUsers) RecoveryCodes(ctx context.Context, userID string) (int, error) {
	var u adminapi.User
	err := s.gateway.Send(ctx, http.MethodGet, "/admin/users/"+url.PathEscape(userID), nil, &u)
	if err != nil || u.RecoveryCodes == nil {
		return 0, err
	}
	return *u.RecoveryCodes, nil
}

// CheckPassword implements userBase. The gateway checks a password when it is sent.
func (s *servedUsers) CheckPassword(string, string) error { return nil }

// Add implements userBase.
func (s *servedUsers) Add(ctx context.Context, n local.NewUser) (broker.User, error) {
	rights := adminapi.NewRights(local.Rights{Scopes: n.Scopes, Entitlements: n.Entitlements, Limits: n.Limits, Networks: n.Networks})
	var u adminapi.User
	err := s.gateway.Send(ctx, http.MethodPost, "/admin/users", adminapi.AddUser{Username: n.Username, Password: n.Password, MustChange: n.MustChange, Rights: &rights, Groups: n.Groups}, &u)
	return broker.User{ID: u.ID, Username: u.Username}, existing(err, "user", n.Username)
}

// existing returns local.ErrExists for the refusal of something that exists, and otherwise err.
func existing(err error, what, name string) error {
	var refused *operation.Refusal
	if errors.As(err, &refused) && refused.Status == http.StatusConflict {
		return fmt.Errorf("%s %q %w", what, name, local.ErrExists)
	}
	return err
}

// action makes an action of a user, and returns the user before and after.
func (s *servedUsers) action(ctx context.Context, username string, body any) (before, after adminapi.User, err error) {
	if before, err = s.find(ctx, username); err == nil {
		err = s.gateway.Send(ctx, http.MethodPost, "/admin/users/"+url.PathEscape(before.ID), body, &after)
	}
	return before, after, err
}

// SetPassword implements userBase.
func (s *servedUsers) SetPassword(ctx context.Context, username, password string) error {
	_, _, err := s.action(ctx, username, adminapi.Change{Action: adminapi.SetPassword, Password: &password})
	return err
}

// SetTemporaryPassword implements userBase.
func (s *servedUsers) SetTemporaryPassword(ctx context.Context, username, password string) error {
	_, _, err := s.action(ctx, username, adminapi.Change{Action: adminapi.SetPassword, Password: &password, MustChange: true})
	return err
}

// Disable implements userBase.
func (s *servedUsers) Disable(ctx context.Context, username string) error {
	_, _, err := s.action(ctx, username, map[string]string{"action": "disable"})
	return err
}

// Enable implements userBase.
func (s *servedUsers) Enable(ctx context.Context, username string) error {
	_, _, err := s.action(ctx, username, map[string]string{"action": "enable"})
	return err
}

// Logout implements userBase.
func (s *servedUsers) Logout(ctx context.Context, username string) error {
	u, err := s.find(ctx, username)
	if err != nil {
		return err
	}
	return s.gateway.Send(ctx, http.MethodDelete, "/admin/users/"+url.PathEscape(u.ID)+"/sessions", nil, &struct{}{})
}

// SetExpiry implements userBase.
func (s *servedUsers) SetExpiry(ctx context.Context, username string, at time.Time) (bool, error) {
	body := map[string]any{"action": "set_expiry", "expires_at": nil}
	if !at.IsZero() {
		body["expires_at"] = at.UTC()
	}
	before, after, err := s.action(ctx, username, body)
	return err == nil && !before.Expires.Equal(after.Expires), err
}

// DisableSecondFactor implements userBase.
func (s *servedUsers) DisableSecondFactor(ctx context.Context, username string) (bool, error) {
	before, _, err := s.action(ctx, username, map[string]string{"action": "reset_second_factor"})
	return before.SecondFactor, err
}

// editTries is how often rights are read and replaced again after somebody else has changed them.
const editTries = 5

// EditRights implements userBase.
func (s *servedUsers) EditRights(ctx context.Context, username string, edit func(*local.Rights) error) (bool, error) {
	return s.edit(ctx, edit, func() (string, adminapi.Rights, error) {
		u, err := s.find(ctx, username)
		return "/admin/users/" + url.PathEscape(u.ID), u.Rights, err
	})
}

// edit reads rights and their path, changes them, and sends them back, until nobody else has
// changed them in between.
func (s *servedUsers) edit(ctx context.Context, edit func(*local.Rights) error, read func() (string, adminapi.Rights, error)) (bool, error) {
	for try := 1; ; try++ {
		path, before, err := read()
		if err != nil {
			return false, err
		}
		r, err := before.Local()
		if err != nil {
			return false, err
		}
		if err := edit(&r); err != nil {
			return false, err
		}
		after := adminapi.NewRights(r)
		if reflect.DeepEqual(after, before) {
			return false, nil
		}
		body := adminapi.Change{Action: adminapi.SetRights, RightsChange: adminapi.RightsChange{Rights: &after, Expected: &before}}
		err = s.gateway.Send(ctx, http.MethodPost, path, body, &struct{}{})
		var refused *operation.Refusal
		if !errors.As(err, &refused) || refused.Status != http.StatusConflict || try == editTries {
			return err == nil, err
		}
	}
}

// Groups implements userBase.
func (s *servedUsers) Groups(ctx context.Context) ([]local.Group, error) {
	var list adminapi.Groups
	if err := s.gateway.Send(ctx, http.MethodGet, "/admin/groups", nil, &list); err != nil {
		return nil, err
	}
	groups := make([]local.Group, len(list.Groups))
	for i, g := range list.Groups {
		rights, err := g.Rights.Local()
		if err != nil {
			return nil, err
		}
		groups[i] = local.Group{Name: g.Name, Rights: rights, RequiredFactor: g.FactorRequired, Members: g.Members}
	}
	return groups, nil
}

// group returns a group.
func (s *servedUsers) group(ctx context.Context, name string) (local.Group, error) {
	groups, err := s.Groups(ctx)
	if err != nil {
		return local.Group{}, err
	}
	i := slices.IndexFunc(groups, func(g local.Group) bool { return g.Name == name })
	if i >= 0 && !adminapi.Addressable(name) {
		return local.Group{}, command.Fail(command.ExitUsage, fmt.Errorf("a gateway has no route to the group %q, whose name cannot be part of a path", name),
			"Use --config FILE or --data DIR on its machine, without --admin and --token-file.")
	}
	if i < 0 {
		return local.Group{}, fmt.Errorf("%w: %q", local.ErrNoGroup, name)
	}
	return groups[i], nil
}

// AddGroup implements userBase.
func (s *servedUsers) AddGroup(ctx context.Context, name string, r local.Rights) error {
	rights := adminapi.NewRights(r)
	err := s.gateway.Send(ctx, http.MethodPost, "/admin/groups", adminapi.AddGroup{Name: name, Rights: &rights}, &struct{}{})
	return existing(err, "group", name)
}

func groupPath(name string) string { return "/admin/groups/" + url.PathEscape(name) }

// EditGroup implements userBase.
func (s *servedUsers) EditGroup(ctx context.Context, name string, edit func(*local.Rights) error) (bool, error) {
	return s.edit(ctx, edit, func() (string, adminapi.Rights, error) {
		g, err := s.group(ctx, name)
		return groupPath(name), adminapi.NewRights(g.Rights), err
	})
}

// RequireFactor implements userBase.
func (s *servedUsers) RequireFactor(ctx context.Context, group string, required bool) (bool, error) {
	g, err := s.group(ctx, group)
	if err != nil || g.RequiredFactor == required {
		return false, err
	}
	err = s.gateway.Send(ctx, http.MethodPost, groupPath(group), adminapi.Change{Action: adminapi.SetSecondFactor, Required: &required}, &struct{}{})
	return err == nil, err
}

// RemoveGroup implements userBase.
func (s *servedUsers) RemoveGroup(ctx context.Context, name string) (int, error) {
	if _, err := s.group(ctx, name); err != nil {
		return 0, err
	}
	var removed adminapi.Removed
	err := s.gateway.Send(ctx, http.MethodDelete, groupPath(name), nil, &removed)
	return removed.Members, err
}

// Join implements userBase.
func (s *servedUsers) Join(ctx context.Context, username, group string) (bool, error) {
	return s.member(ctx, username, group, "join_group")
}

// Leave implements userBase.
func (s *servedUsers) Leave(ctx context.Context, username, group string) (bool, error) {
	return s.member(ctx, username, group, "leave_group")
}

func (s *servedUsers) member(ctx context.Context, username, group, action string) (bool, error) {
	if _, err := s.group(ctx, group); err != nil {
		return false, err
	}
	before, after, err := s.action(ctx, username, map[string]string{"action": action, "group": group})
	return err == nil && len(before.Groups) != len(after.Groups), err
}

// ListAccounts implements userBase.
func (s *servedUsers) ListAccounts(ctx context.Context, userID string) ([]broker.Account, error) {
	var list adminapi.Accounts
	err := s.gateway.Send(ctx, http.MethodGet, "/admin/users/"+url.PathEscape(userID)+"/accounts", nil, &list)
	return list.Accounts, err
}

// AddAccount implements userBase.
func (s *servedUsers) AddAccount(ctx context.Context, username string, a broker.Account) (broker.Account, error) {
	u, err := s.find(ctx, username)
	if err != nil {
		return broker.Account{}, err
	}
	var list adminapi.Accounts
	body := adminapi.AddAccount{Number: a.Number, Type: a.Type, Currency: a.Currency, Name: a.Name, Default: a.IsDefault}
	if err := s.gateway.Send(ctx, http.MethodPost, "/admin/users/"+url.PathEscape(u.ID)+"/accounts", body, &list); err != nil {
		return broker.Account{}, existing(err, "account", a.Number)
	}
	i := slices.IndexFunc(list.Accounts, func(x broker.Account) bool { return x.Number == a.Number })
	if i < 0 {
		return broker.Account{}, errors.New("the gateway does not list the new account")
	}
	return list.Accounts[i], nil
}
