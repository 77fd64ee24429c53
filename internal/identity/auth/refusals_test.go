package auth_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/auth/throttle"
)

// tryOTP is try with a one-time password.
func tryOTP(t *testing.T, w *world, password, otp string, o auth.Origin) string {
	t.Helper()
	_, err := w.Password(t.Context(), "maria", password, otp, o)
	return reasonOf(err)
}

// TestSecondFactor checks that a correct password alone is answered with mfa_required, and that a
// wrong one-time password is answered like a wrong password.
func TestSecondFactor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, defaultThrottle)
		w.people.change("us_maria", func(p *person) { p.otp = "123456" })
		const right = "maria's password"
		for _, c := range []struct{ password, otp, want string }{
			{right, "123456", ""},
			{right, "", auth.MFARequired},
			{right, "654321", auth.InvalidCredentials},
			{"wrong", "123456", auth.InvalidCredentials},
			{"wrong", "", auth.InvalidCredentials},
			{right, strings.Repeat("1", 65), auth.InvalidRequest},
		} {
			if got := tryOTP(t, w, c.password, c.otp, origin); got != c.want {
				t.Errorf("%s with %q: %q, want %q", c.password, c.otp, got, c.want)
			}
		}
		rows := w.audited(audit.LoginRefused)
		if len(rows) != 3 || rows[0].User != "us_maria" || !strings.HasPrefix(rows[0].Detail, auth.MFARequired+" name ") {
			t.Errorf("audit log: %+v", rows)
		}
		rows = w.audited(audit.PasswordExposed)
		if len(rows) != 1 || rows[0].User != "us_maria" || !strings.HasPrefix(rows[0].Detail, "wrong_otp name ") {
			t.Errorf("audit log: %+v", rows)
		}
	})
}

// TestSecondFactorIsBounded checks that a correct password is confirmed as often as a wrong one may
// be tried, also by parallel requests. The account is not charged for it. One-time passwords cannot
// be guessed faster than passwords.
func TestSecondFactorIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, defaultThrottle)
		w.people.change("us_maria", func(p *person) { p.otp = "123456" })
		const right = "maria's password"
		answers := make(chan string, 100)
		for i := range cap(answers) {
			go func() { answers <- tryOTP(t, w, right, "", scattered(i)) }()
		}
		count := map[string]int{}
		for range cap(answers) {
			count[<-answers]++
		}
		if count[auth.MFARequired] != 5 || count[auth.TooManyFailures] != 95 {
			t.Errorf("a hundred at once: %v", count)
		}
		if got := tryOTP(t, w, right, "123456", scattered(200)); got != "" {
			t.Errorf("with the one-time password, which is not held up: %s", got)
		}
		time.Sleep(time.Minute)
		if got := tryOTP(t, w, right, "", scattered(201)); got != auth.MFARequired {
			t.Errorf("after a while: %s", got)
		}
		checked := 0
		for i := range 1000 {
			if tryOTP(t, w, right, fmt.Sprintf("%06d", i), scattered(1000+i)) == auth.InvalidCredentials {
				checked++
			}
		}
		if checked != 5 {
			t.Errorf("%d one-time passwords were looked at, want 5", checked)
		}
	})
}

// lockedFactor is a user base that checks no one-time passwords any more.
type lockedFactor struct{ *people }

func (p lockedFactor) Authenticate(ctx context.Context, login broker.Login) (broker.User, error) {
	user, err := p.people.Authenticate(ctx, login)
	if login.OTP != "" && (err == nil || errors.Is(err, broker.ErrWrongOTP)) {
		return broker.User{ID: user.ID}, broker.ErrFactorLocked
	}
	return user, err
}

// TestSecondFactorLocked checks that logins with a locked second factor are answered as such,
// recorded as an exposed password, and limited like wrong ones.
func TestSecondFactorLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, defaultThrottle)
		w.people.change("us_maria", func(p *person) { p.otp = "123456" })
		w.cfg.Users = lockedFactor{w.people}
		w.restart()
		for i := range 7 {
			want := auth.SecondFactorLocked
			if i >= 5 {
				want = auth.TooManyFailures
			}
			if got := tryOTP(t, w, "maria's password", "123456", origin); got != want {
				t.Errorf("login %d: %s, want %s", i, got, want)
			}
		}
		rows := w.audited(audit.PasswordExposed)
		if len(rows) != 5 || rows[0].User != "us_maria" || !strings.HasPrefix(rows[0].Detail, auth.SecondFactorLocked+" name ") {
			t.Errorf("audit log: %+v", rows)
		}
	})
}

// TestRefusedLoginsAreWrittenDown checks that each refusal is recorded before it is answered. The
// row has a user only if one exists, and never the typed name. A refusal that cannot be recorded is
// neither answered as such nor charged.
func TestRefusedLoginsAreWrittenDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, defaultThrottle)
		w.people.change("us_otto", func(p *person) { p.disabled = true })
		for _, c := range []struct{ username, password, user string }{
			{"maria", "wrong", "us_maria"},
			{"otto", "otto's password", "us_otto"},
			{"my-password-canary", "x", ""},
			{"my-password-canary", "y", ""},
			{"maria", "", ""},
		} {
			before := len(w.audited(audit.LoginRefused))
			if got, _ := try(t, w, c.username, c.password, origin); got != auth.InvalidCredentials {
				t.Errorf("%s: %s", c.username, got)
			}
			rows := w.audited(audit.LoginRefused)
			if len(rows) != before+1 {
				t.Fatalf("%s: %d rows", c.username, len(rows)-before)
			}
			if row := rows[before]; row.User != c.user || row.Actor != "client" || row.Address != "192.0.2.1" || row.Client != "test/1" || row.Family != "" {
				t.Errorf("%s: %+v", c.username, row)
			}
		}
		rows := w.audited(audit.LoginRefused)
		if rows[2].Detail != rows[3].Detail || rows[0].Detail == rows[1].Detail || rows[0].Detail != rows[4].Detail {
			t.Errorf("the names are distinguished by %q, %q, %q, %q", rows[0].Detail, rows[1].Detail, rows[2].Detail, rows[3].Detail)
		}
		if all := fmt.Sprint(rows); strings.Contains(all, "canary") || strings.Contains(all, "otto's") {
			t.Errorf("the audit log holds what was typed: %s", all)
		}

		w = newWorld(t, defaultThrottle)
		w.store.setDown(errors.New("disk full"))
		for i := range 100 {
			if got, retry := try(t, w, "maria", "wrong", origin); got != auth.Unavailable || retry <= 0 {
				t.Fatalf("attempt %d while nothing can be written: %s", i, got)
			}
		}
		w.store.setDown(nil)
		w.login("maria") // nothing was charged
	})
}

// TestThrottledIsWrittenDownSeldom checks that a flood of refusals leaves one row a minute.
func TestThrottledIsWrittenDownSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *auth.Config) {
			c.Throttle.AccountFree, c.Throttle.FamilyPerMinute, c.Throttle.FamilyBurst = 0, 0, 0
		})
		tokens := w.login("maria")
		for i := range 5 {
			try(t, w, "maria", "wrong", scattered(i))
		}
		try(t, w, "maria", "wrong", scattered(6))
		for i := range 3000 { // five minutes
			try(t, w, "maria", "wrong", scattered(i))
			if _, err := w.Refresh(t.Context(), tokens.Refresh, origin); err != nil {
				wantReason(t, err, auth.RateLimited)
			}
			time.Sleep(100 * time.Millisecond)
		}
		for _, kind := range []audit.Kind{audit.LoginThrottled, audit.RefreshRefused} {
			if n := len(w.audited(kind)); n < 4 || n > 6 {
				t.Errorf("%s: %d rows in 5 minutes, want one a minute", kind, n)
			}
		}
		if row := w.audited(audit.RefreshRefused)[0]; row.User != "us_maria" || row.Family == "" || row.Detail != auth.RateLimited {
			t.Errorf("%+v", row)
		}
		if row := w.audited(audit.LoginThrottled)[0]; row.User != "" || !strings.HasPrefix(row.Detail, auth.TooManyFailures+" name ") {
			t.Errorf("%+v", row)
		}
	})
}

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, defaultThrottle)
		check := func(remaining int, reset time.Duration) {
			t.Helper()
			if limit, left, again, window := w.Limit(origin); limit != 20 || left != remaining || again != reset || window != 2*time.Minute {
				t.Errorf("limit %d, remaining %d, reset in %v of %v; want 20, %d, %v", limit, left, again, window, remaining, reset)
			}
		}
		check(20, 0)
		for i := range 3 {
			try(t, w, fmt.Sprint("user", i), "wrong", origin)
		}
		check(17, 18*time.Second)
		time.Sleep(6 * time.Second)
		check(18, 12*time.Second)
		w.login("maria")
		check(18, 12*time.Second)
		if _, left, _, _ := w.Limit(scattered(1)); left != 20 {
			t.Errorf("another address: %d", left)
		}
	})
}

// TestOfficeLogsIn checks an office with one address where a thousand users log in at once, and one
// bot keeps trying a wrong password. No user has to wait because of the bot, but some may be
// answered that the gateway is busy.
func TestOfficeLogsIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, defaultThrottle)
		const staff = 200
		for i := range staff {
			name := fmt.Sprint("clerk", i)
			w.people.byID["us_"+name] = &person{password: "secret"}
			w.people.byID["us_"+name].user.ID, w.people.byID["us_"+name].user.Username = "us_"+name, name
		}
		answers := make(chan string, staff)
		morning := func() {
			for i := range staff {
				go func() {
					reason, _ := try(t, w, fmt.Sprint("clerk", i), "secret", origin)
					answers <- reason
				}()
			}
			for range staff {
				if reason := <-answers; reason != "" {
					t.Errorf("a clerk: %s", reason)
				}
			}
		}
		morning()
		for range 1000 {
			try(t, w, "forgotten bot", "old password", origin)
			try(t, w, "clerk7", "old password", origin)
			time.Sleep(time.Second)
		}
		if reason, _ := try(t, w, "newcomer", "x", origin); reason == "" {
			t.Error("somebody unknown got in")
		}
		time.Sleep(throttle.MaxBackoff)
		morning()
	})
}

// TestFloodOfRefusals checks that the rows a minute are bounded, also those of one attacker, and
// that the others are counted.
func TestFloodOfRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const minutes = 10
		attempts := 0
		for i := range minutes * 600 {
			time.Sleep(100 * time.Millisecond)
			try(t, w, fmt.Sprint("user", i), "wrong", neighbour(i%250)) // one network
			attempts++
			if i%6 == 0 { // and many
				try(t, w, fmt.Sprint("user", i), "wrong", scattered(i))
				attempts++
			}
		}
		time.Sleep(time.Minute)
		try(t, w, "maria", "wrong", neighbour(1))
		attempts++
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer func() { cancel(); running.Wait() }()
		running.Go(func() { _ = w.Run(ctx) })
		time.Sleep(time.Minute)
		synctest.Wait()
		rows, near, left, counts := w.audited(audit.LoginRefused), 0, 0, 0
		for _, row := range rows {
			var more int
			if n, _ := fmt.Sscanf(row.Detail, "and %d more", &more); n == 1 {
				left += more
				counts++
			} else if strings.HasPrefix(row.Address, "203.0.113.") {
				near++
			}
		}
		if near > 20*(minutes+2) || counts > minutes+2 {
			t.Errorf("%d rows of one network, %d that count", near, counts)
		}
		if far := len(rows) - near - counts; far != minutes*100 {
			t.Errorf("%d rows of others, want all %d", far, minutes*100)
		}
		if got := len(rows) - counts + left; got != attempts {
			t.Errorf("%d rows and %d more, want %d in all", len(rows)-counts, left, attempts)
		}
	})
}

// TestOneAttackerDoesNotHideOthers checks that refused attempts of one network with ever new names
// do not displace the rows of others.
func TestOneAttackerDoesNotHideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, defaultThrottle)
		flood := func() {
			for i := range 1000 {
				try(t, w, fmt.Sprint("user", i), "wrong", neighbour(i%250))
			}
		}
		flood()
		for range 6 {
			try(t, w, "maria", "wrong", origin)
		}
		flood()
		rows := w.audited(audit.LoginThrottled)
		if last := rows[len(rows)-1]; len(rows) > 30 || last.Address != "192.0.2.1" && rows[len(rows)-2].Address != "192.0.2.1" {
			t.Errorf("%d rows, the last is %+v", len(rows), last)
		}
	})
}
