package conform

import (
	"context"
	"net/http"
	"net/url"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/api/adminapi"
	"github.com/ruedahq/rueda/internal/ops/cli/operation"
)

// users changes the users of a gateway over its listener for administrators, for server.Users.
// Several conversations may use it at the same time.
type users struct{ gateway *operation.Client }

func newRights(r broker.Rights) *adminapi.Rights {
	rights := adminapi.NewRights(local.Rights(r))
	return &rights
}

// Add implements server.Users.
func (u users) Add(ctx context.Context, name, password string, r broker.Rights) error {
	body := adminapi.AddUser{Username: name, Password: password, Rights: newRights(r)}
	return u.gateway.Send(ctx, http.MethodPost, "/admin/users", body, &struct{}{})
}

// path returns the path of a user.
func (u users) path(ctx context.Context, name string) (string, error) {
	var page adminapi.Users
	err := u.gateway.Send(ctx, http.MethodGet, "/admin/users?name="+url.QueryEscape(name), nil, &page)
	if err != nil {
		return "", err
	}
	if len(page.Users) == 0 {
		return "", broker.ErrNotFound
	}
	return "/admin/users/" + url.PathEscape(page.Users[0].ID), nil
}

// SetRights implements server.Users.
func (u users) SetRights(ctx context.Context, name string, r broker.Rights) error {
	path, err := u.path(ctx, name)
	if err != nil {
		return err
	}
	body := adminapi.Change{Action: adminapi.SetRights, RightsChange: adminapi.RightsChange{Rights: newRights(r)}}
	return u.gateway.Send(ctx, http.MethodPost, path, body, &struct{}{})
}

// Logout implements server.Users.
func (u users) Logout(ctx context.Context, name string) error {
	path, err := u.path(ctx, name)
	if err != nil {
		return err
	}
	return u.gateway.Send(ctx, http.MethodDelete, path+"/sessions", nil, &struct{}{})
}
