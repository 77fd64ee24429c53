package auth_test

import (
	"context"
	"testing"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/identity/auth"
)

// selfService is a user base whose users change their credentials. meanwhile is called after a user
// was read and before the change.
type selfService struct {
	*people
	meanwhile func()
}

func (s selfService) CheckPassword(string, string) error { return nil }

func (s selfService) ChangePassword(_ context.Context, user broker.User, password string, _ broker.Caller) (broker.User, error) {
	s.meanwhile()
	user.Version++
	s.change(user.ID, func(p *person) { p.password, p.user.Version = password, user.Version })
	return user, nil
}

func (s selfService) BeginEnrolment(context.Context, broker.User) (broker.Enrolment, error) {
	return broker.Enrolment{}, nil
}

func (s selfService) ConfirmEnrolment(ctx context.Context, _, _ string, by broker.Caller) (broker.User, []string, error) {
	user, err := s.User(ctx, "us_maria")
	if err == nil {
		user, err = s.ChangePassword(ctx, user, "maria's password", by)
	}
	return user, nil, err
}

func (s selfService) RenewRecoveryCodes(context.Context, broker.User, broker.Caller) ([]string, error) {
	return nil, broker.ErrNoFactor
}

func (s selfService) RemoveSecondFactor(context.Context, broker.User, broker.Caller) error {
	return broker.ErrNoFactor
}

// TestThreat23RightsRemovedMeanwhile removes the rights of a user between the check of the password
// and the change of the password or second factor. The tokens of the new login have no rights.
func TestThreat23RightsRemovedMeanwhile(t *testing.T) {
	for _, change := range []string{"password", "second factor"} {
		t.Run(change, func(t *testing.T) {
			var w *world
			w = newWorld(t, func(c *auth.Config) {
				c.Users = selfService{c.Users.(*people), func() {
					w.people.change("us_maria", func(p *person) { p.user.Entitlements = nil })
					w.UsersChanged(t.Context())
				}}
			})
			before := w.login("maria")
			if _, err := w.Verify(t.Context(), before.Access.Reveal()); err != nil {
				t.Fatal(err)
			}
			self, tokens, err := auth.NewSelfService(w.Service), auth.Tokens{}, error(nil)
			if change == "password" {
				tokens, err = self.ChangePassword(t.Context(), broker.Login{Username: "maria", Password: "maria's password"}, "another one", origin)
			} else {
				tokens, _, err = self.ConfirmEnrolment(t.Context(), auth.NewSecret("enrolment"), "123456", origin)
			}
			if err != nil {
				t.Fatal(err)
			}
			id, err := w.Verify(t.Context(), tokens.Access.Reveal())
			if err != nil || len(id.User.Entitlements) != 0 {
				t.Errorf("the new login has %v, %v", id.User.Entitlements, err)
			}
			if rights := w.hooks.rights; len(rights) == 0 || len(rights[len(rights)-1].Entitlements) != 0 {
				t.Errorf("sockets have %v", rights)
			}
			if _, err := w.Verify(t.Context(), before.Access.Reveal()); !auth.IsReason(err, auth.TokenRevoked) {
				t.Errorf("the earlier login: %v", err)
			}
		})
	}
}
