package auth_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth"
)

// elsewhere is outside of the networks of these tests.
func elsewhere() auth.Origin {
	return auth.Origin{Address: netip.MustParseAddr("198.51.100.9"), Client: "test/1"}
}

// TestThreat46LoginsFromElsewhere logs in with the right password from outside of the user's
// networks, often. These refusals reveal nothing that could be guessed, and do not keep the owner
// out of a new location.
func TestThreat46LoginsFromElsewhere(t *testing.T) {
	w := newWorld(t, defaultThrottle)
	networks := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	w.people.change("us_maria", func(p *person) { p.user.Networks = networks })
	for i := range 200 {
		outside := auth.Origin{Address: netip.AddrFrom4([4]byte{198, 51, byte(i), 1})}
		if reason, _ := try(t, w, "maria", "maria's password", outside); reason != auth.AddressNotAllowed {
			t.Errorf("login %d from outside: %s", i, reason)
		}
	}
	if reason, wait := try(t, w, "maria", "maria's password", from(1)); reason != "" {
		t.Errorf("the owner in a new location: %s, wait %v", reason, wait)
	}
}

// TestThreat46RightPasswordsFromElsewhere logs in with the right password from outside of the
// user's networks without a pause, also where the account has logged in before: five are checked,
// and then one a minute. The owner is not affected.
func TestThreat46RightPasswordsFromElsewhere(t *testing.T) {
	for what, before := range map[string]bool{"a new address": false, "an address of earlier logins": true} {
		for _, otp := range []string{"", "ignored"} {
			t.Run(what+" "+otp, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, defaultThrottle)
					w.cfg.Users = withoutFactor{w.people}
					w.restart()
					if before {
						_, err := w.Password(t.Context(), "maria", "maria's password", "", elsewhere())
						wantReason(t, err, "")
					}
					networks := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
					w.people.change("us_maria", func(p *person) { p.user.Networks = networks })
					checked, _ := w.people.counts()
					for i := range 1200 { // ten minutes
						_, err := w.Password(t.Context(), "maria", "maria's password", otp, elsewhere())
						want := auth.AddressNotAllowed
						if i >= 5 && i%120 != 0 {
							want = auth.TooManyFailures
						}
						if got := reasonOf(err); got != want {
							t.Fatalf("login %d: %s, want %s", i, got, want)
						}
						time.Sleep(500 * time.Millisecond)
					}
					if after, _ := w.people.counts(); after-checked != 5+9 {
						t.Errorf("%d passwords were checked, want 14", after-checked)
					}
					if reason, wait := try(t, w, "maria", "maria's password", from(1)); reason != "" {
						t.Errorf("the owner: %s, wait %v", reason, wait)
					}
				})
			})
		}
	}
}

// withoutFactor is a user base that ignores one-time passwords.
type withoutFactor struct{ *people }

func (p withoutFactor) Authenticate(ctx context.Context, login broker.Login) (broker.User, error) {
	login.OTP = ""
	return p.people.Authenticate(ctx, login)
}

// TestThreat46Networks checks that credentials and tokens work only in the user's networks, that a
// refusal ends no login, and that a client without the correct password gets the usual answer.
func TestThreat46Networks(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	tokens := w.login("maria")
	networks := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.0/24")}
	w.people.change("us_maria", func(p *person) { p.user.Networks = networks })

	_, err := w.Password(ctx, "maria", "maria's password", "", elsewhere())
	wantReason(t, err, auth.AddressNotAllowed)
	_, err = w.Password(ctx, "maria", "wrong", "", elsewhere())
	wantReason(t, err, auth.InvalidCredentials)
	_, err = w.Password(ctx, "nobody", "wrong", "", elsewhere())
	wantReason(t, err, auth.InvalidCredentials)
	_, err = w.Refresh(ctx, tokens.Refresh, elsewhere())
	wantReason(t, err, auth.AddressNotAllowed)
	_, err = w.Refresh(ctx, tokens.Refresh, auth.Origin{})
	wantReason(t, err, auth.AddressNotAllowed)
	id := w.verify(tokens.Access)
	if !slices.Equal(id.User.Networks, networks) {
		t.Errorf("networks of a token: %v", id.User.Networks)
	}
	for range 3 {
		err = auth.CheckAddress(ctx, w.Service, id.User.ID, id.Family, id.User.Networks, elsewhere())
		wantReason(t, err, auth.AddressNotAllowed)
	}
	if err := auth.CheckAddress(ctx, w.Service, id.User.ID, id.Family, id.User.Networks, origin); err != nil {
		t.Errorf("an allowed address: %v", err)
	}
	w.login("maria")
	w.refresh(tokens.Refresh)

	rows := w.audited(audit.AddressRefused)
	if len(rows) != 1 || rows[0].User != "us_maria" || rows[0].Family != id.Family || rows[0].Address != "198.51.100.9" {
		t.Errorf("rows of refused tokens: %+v", rows)
	}
	if rows := w.audited(audit.RefreshRefused); len(rows) != 1 || rows[0].User != "us_maria" {
		t.Errorf("rows of refused refreshes: %+v", rows)
	}
	if rows := w.audited(audit.LoginRefused); len(rows) != 2 {
		t.Errorf("rows of wrong passwords: %+v", rows)
	}
	refused := w.audited(audit.PasswordExposed)
	if len(refused) != 1 || refused[0].User != "us_maria" || refused[0].Detail[:len(auth.AddressNotAllowed)] != auth.AddressNotAllowed {
		t.Errorf("rows of refused logins: %+v", refused)
	}
}

// TestThreat47AccountEnds checks that the tokens and sockets of a user end within a second of the
// end of the account, also if the user base does not answer then.
func TestThreat47AccountEnds(t *testing.T) {
	for name, down := range map[string]error{"": nil, "while the user base is down": errors.New("down")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { _ = w.Run(ctx) })
				defer running.Wait()
				defer cancel()
				end := time.Now().Add(time.Hour)
				w.people.change("us_maria", func(p *person) { p.user.Expires = end })
				maria, otto := w.login("maria"), w.login("otto")
				w.people.change("us_maria", func(p *person) { p.user.Expires = end.Add(time.Hour) })
				w.UsersChanged(ctx)
				time.Sleep(time.Hour + time.Minute)
				w.verify(maria.Access) // the end was moved
				time.Sleep(59*time.Minute - time.Second)
				if len(w.hooks.revokedUsers()) != 0 {
					t.Fatalf("ended too early: %v", w.hooks.revokedUsers())
				}
				w.people.setDown(down)
				w.people.change("us_maria", func(p *person) { p.disabled = true }) // what a user base answers then
				time.Sleep(time.Second)
				w.rejects(maria.Access, auth.TokenRevoked)
				time.Sleep(time.Second)
				if got := w.hooks.revokedUsers(); !slices.Equal(got, []string{"us_maria"}) {
					t.Errorf("sockets closed of %v", got)
				}
				w.people.setDown(nil)
				w.refuses(maria.Refresh, auth.InvalidRefreshToken)
				w.verify(otto.Access)
				w.refresh(otto.Refresh)
			})
		})
	}
}
