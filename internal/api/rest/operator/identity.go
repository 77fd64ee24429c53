package operator

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/api/adminapi"
	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/wire"
)

// addUser serves POST /admin/users. It refuses unknown groups before it adds the user.
func (r *Routes) addUser(q *Request) (api.Result, error) {
	var body adminapi.AddUser
	if err := Decode(q.Request, &body); err != nil {
		return api.Result{}, err
	}
	if body.Rights == nil {
		none := adminapi.NewRights(local.Rights{})
		body.Rights = &none
	}
	own, err := body.Rights.Local()
	if err == nil {
		err = own.Check()
	}
	if err != nil {
		return api.Result{}, r.failure(q, err, "rights")
	}
	users := r.by(q)
	if err := r.haveGroups(q, body.Groups); err != nil {
		return api.Result{}, err
	}
	if err := users.CheckPassword(body.Username, body.Password); err != nil {
		return api.Result{}, r.failure(q, err, "password")
	}
	if _, err := users.Add(q.Context(), local.NewUser{
		Username: body.Username, Password: body.Password, MustChange: body.MustChange, Scopes: own.Scopes, Entitlements: own.Entitlements, Limits: own.Limits,
		Networks: own.Networks, Groups: body.Groups,
	}); err != nil {
		return api.Result{}, r.failure(q, err, "username")
	}
	entry, err := users.Entry(q.Context(), body.Username)
	if err != nil {
		return api.Result{}, r.failure(q, err, "username")
	}
	return object(adminapi.NewUser(&entry, time.Now()))
}

// haveGroups returns an error if one of the groups does not exist.
func (r *Routes) haveGroups(q *Request, names []string) error {
	if len(names) == 0 {
		return nil
	}
	groups, err := r.cfg.Users.Groups(q.Context())
	if err != nil {
		return r.failure(q, err, "groups")
	}
	for _, name := range names {
		if !slices.ContainsFunc(groups, func(g local.Group) bool { return g.Name == name }) {
			return wire.NewFailure(wire.UnsupportedOption, "groups", "have one that does not exist")
		}
	}
	return nil
}

// ChangeUser returns a function that makes the change in text, the body of POST /admin/users/{id},
// to the user with a name. It handles the actions set_rights and set_password, and returns nil, nil
// for any other action.
func ChangeUser(text []byte, action string) (func(ctx context.Context, users *local.Base, username string) error, *wire.Failure) {
	if action != adminapi.SetRights && action != adminapi.SetPassword {
		return nil, nil
	}
	var body adminapi.Change
	if f := DecodeText(text, &body); f != nil {
		return nil, f
	}
	if action == adminapi.SetPassword {
		if body.Password == nil {
			return nil, wire.NewFailure(wire.InvalidRequest, "password", "is missing")
		}
		return func(ctx context.Context, users *local.Base, username string) error {
			if err := users.CheckPassword(username, *body.Password); err != nil {
				return wire.NewFailure(wire.BadField, "password", "cannot be used: "+err.Error())
			}
			if body.MustChange {
				return users.SetTemporaryPassword(ctx, username, *body.Password)
			}
			return users.SetPassword(ctx, username, *body.Password)
		}, nil
	}
	edit, f := rightsEdit(&body.RightsChange)
	if f != nil {
		return nil, f
	}
	return func(ctx context.Context, users *local.Base, username string) error {
		_, err := users.EditRights(ctx, username, edit)
		return err
	}, nil
}

// rightsEdit returns the function of RightsChange.Apply, with errors that can be sent to the
// client.
func rightsEdit(c *adminapi.RightsChange) (func(*local.Rights) error, *wire.Failure) {
	if c.Rights == nil {
		return nil, wire.NewFailure(wire.InvalidRequest, "rights", "is missing")
	}
	edit, err := c.Apply()
	if err != nil {
		return nil, wire.NewFailure(wire.BadField, "rights", "cannot be used: "+err.Error())
	}
	return func(r *local.Rights) error {
		err := edit(r)
		switch {
		case errors.Is(err, adminapi.ErrChanged):
			return &wire.Failure{Fault: wire.Fault{Reason: wire.Conflict, Msg: "The rights have been changed meanwhile", Hint: "Read them again"}}
		case err != nil:
			return wire.NewFailure(wire.BadField, "rights", "cannot be used: "+err.Error())
		}
		return nil
	}, nil
}

// accounts serves GET /admin/users/{id}/accounts.
func (r *Routes) accounts(q *Request) (api.Result, error) {
	if _, err := r.cfg.Users.EntryByID(q.Context(), q.Segment); err != nil {
		return api.Result{}, r.failure(q, err, "id")
	}
	r.cfg.Noted(q, q.Segment, "accounts")
	return r.listAccounts(q)
}

func (r *Routes) listAccounts(q *Request) (api.Result, error) {
	list, err := r.cfg.Users.ListAccounts(q.Context(), q.Segment)
	if err != nil {
		return api.Result{}, r.failure(q, err, "id")
	}
	return object(adminapi.Accounts{Accounts: append([]broker.Account{}, list...)})
}

// addAccount serves POST /admin/users/{id}/accounts.
func (r *Routes) addAccount(q *Request) (api.Result, error) {
	var body adminapi.AddAccount
	if err := Decode(q.Request, &body); err != nil {
		return api.Result{}, err
	}
	if body.Type != "" && body.Type != "cash" && body.Type != "margin" {
		return api.Result{}, wire.NewFailure(wire.BadField, "type", "must be cash or margin")
	}
	entry, err := r.cfg.Users.EntryByID(q.Context(), q.Segment)
	if err != nil {
		return api.Result{}, r.failure(q, err, "id")
	}
	a := broker.Account{Number: body.Number, Type: body.Type, Currency: body.Currency, Name: body.Name, IsDefault: body.Default}
	if _, err := r.by(q).AddAccount(q.Context(), entry.Username, a); err != nil {
		return api.Result{}, r.failure(q, err, "number")
	}
	return r.listAccounts(q)
}

// groups serves GET /admin/groups.
func (r *Routes) groups(q *Request) (api.Result, error) {
	r.cfg.Noted(q, "", "groups")
	return r.listGroups(q)
}

func (r *Routes) listGroups(q *Request) (api.Result, error) {
	list, err := r.cfg.Users.Groups(q.Context())
	if err != nil {
		return api.Result{}, r.failure(q, err, "name")
	}
	answer := adminapi.Groups{Groups: []adminapi.Group{}}
	for i := range list {
		answer.Groups = append(answer.Groups, adminapi.NewGroup(&list[i]))
	}
	return object(answer)
}

// group returns the answer that describes the group with a name.
func (r *Routes) group(q *Request, name string) (api.Result, error) {
	list, err := r.cfg.Users.Groups(q.Context())
	if err != nil {
		return api.Result{}, r.failure(q, err, "name")
	}
	i := slices.IndexFunc(list, func(g local.Group) bool { return g.Name == name })
	if i < 0 {
		return api.Result{}, r.failure(q, local.ErrNoGroup, "name")
	}
	return object(adminapi.NewGroup(&list[i]))
}

// addGroup serves POST /admin/groups.
func (r *Routes) addGroup(q *Request) (api.Result, error) {
	var body adminapi.AddGroup
	if err := Decode(q.Request, &body); err != nil {
		return api.Result{}, err
	}
	if body.Rights == nil {
		none := adminapi.NewRights(local.Rights{})
		body.Rights = &none
	}
	rights, err := body.Rights.Local()
	if err == nil {
		err = rights.Check()
	}
	if err != nil {
		return api.Result{}, r.failure(q, err, "rights")
	}
	if !adminapi.Addressable(body.Name) {
		return api.Result{}, wire.NewFailure(wire.BadField, "name", "cannot be part of a path: it has a slash, or consists of dots")
	}
	users := r.by(q)
	add := users.AddGroup
	if body.FactorRequired {
		add = users.AddFactorGroup
	}
	if err := add(q.Context(), body.Name, rights); err != nil {
		return api.Result{}, r.failure(q, err, "name")
	}
	return r.group(q, body.Name)
}

// changeGroup serves POST /admin/groups/{id}.
func (r *Routes) changeGroup(q *Request) (api.Result, error) {
	var body adminapi.Change
	if err := Decode(q.Request, &body); err != nil {
		return api.Result{}, err
	}
	var err error
	switch body.Action {
	case adminapi.SetRights:
		edit, f := rightsEdit(&body.RightsChange)
		if f != nil {
			return api.Result{}, f
		}
		_, err = r.by(q).EditGroup(q.Context(), q.Segment, edit)
	case adminapi.SetSecondFactor:
		if body.Required == nil {
			return api.Result{}, wire.NewFailure(wire.InvalidRequest, "required", "is missing")
		}
		_, err = r.by(q).RequireFactor(q.Context(), q.Segment, *body.Required)
	case "":
		return api.Result{}, wire.NewFailure(wire.InvalidRequest, "action", "is missing")
	default:
		return api.Result{}, wire.NewFailure(wire.BadField, "action", "must be set_rights or set_second_factor")
	}
	if err != nil {
		return api.Result{}, r.failure(q, err, "rights")
	}
	return r.group(q, q.Segment)
}

// removeGroup serves DELETE /admin/groups/{id}.
func (r *Routes) removeGroup(q *Request) (api.Result, error) {
	members, err := r.by(q).RemoveGroup(q.Context(), q.Segment)
	if err != nil {
		return api.Result{}, r.failure(q, err, "name")
	}
	return object(adminapi.Removed{Members: members})
}
