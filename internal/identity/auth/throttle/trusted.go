package throttle

import (
	"net/netip"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/base/cache"
)

const (
	// MaxLocations bounds the trusted locations of one account, and its devices. The last used ones
	// are kept, so that one account cannot evict those of others.
	MaxLocations = 64
	// LocationsKept is how long an account is trusted at a location after its last login there.
	LocationsKept = 180 * 24 * time.Hour
	// MaxTrustedAccounts bounds the accounts whose locations are in memory, and of which the devices
	// are.
	MaxTrustedAccounts = 1 << 18
	// storedFor is how long the use of a location is not stored again.
	storedFor = 24 * time.Hour
)

// TrustedLocation is a place where an account has logged in, or a device with which it has. Both
// names are keyed hashes: a copy of the database reveals neither. The devices of an account have
// another hash of the account.
type TrustedLocation struct {
	Account, Location [32]byte
	Used              time.Time
}

// trustedLocations has the locations of accounts. The lock of the Limiter guards it.
type trustedLocations struct {
	keyed    func(purpose, text string) [32]byte // nil in tests: the text itself
	accounts cache.Map[[32]byte, []TrustedLocation]
}

func newTrustedLocations() trustedLocations {
	return trustedLocations{accounts: cache.New[[32]byte, []TrustedLocation](MaxTrustedAccounts)}
}

func (t *trustedLocations) hash(purpose, text string) (h [32]byte) {
	if t.keyed == nil {
		copy(h[:], text)
		return h
	}
	return t.keyed(purpose, text)
}

// index returns the locations of an account and the index of one, or -1.
func (t *trustedLocations) index(account, location [32]byte) ([]TrustedLocation, int) {
	list, _ := t.accounts.Get(account)
	return list, slices.IndexFunc(list, func(l TrustedLocation) bool { return l.Location == location })
}

// has reports whether an account has logged in at a location.
func (t *trustedLocations) has(username string, place netip.Prefix) bool {
	account := t.hash("trusted account", username)
	if _, known := t.accounts.Get(account); !known {
		return false
	}
	_, i := t.index(account, t.hash("trusted location", place.String()))
	return i >= 0
}

// use makes an account trusted at a location. unstored means that the location is new or was stored
// long ago.
func (t *trustedLocations) use(username string, place netip.Prefix, now time.Time) (l TrustedLocation, unstored bool) {
	return t.put(TrustedLocation{t.hash("trusted account", username), t.hash("trusted location", place.String()), now})
}

// useDevice records that an account has logged in with a device. isNew means that it had logged in
// with other ones only.
func (t *trustedLocations) useDevice(username, device string, now time.Time) (l TrustedLocation, unstored, isNew bool) {
	l = TrustedLocation{t.hash("account of devices", username), t.hash("device", device), now}
	list, i := t.index(l.Account, l.Location)
	isNew = i < 0 && len(list) > 0
	l, unstored = t.put(l)
	return l, unstored, isNew
}

// put adds a location that is used now, or moves it to the end of its list. unstored is that of
// use.
func (t *trustedLocations) put(l TrustedLocation) (_ TrustedLocation, unstored bool) {
	now := l.Used
	list, i := t.index(l.Account, l.Location)
	if i >= 0 {
		if age := now.Sub(list[i].Used); age >= 0 && age < storedFor {
			l.Used = list[i].Used // as stored
		} else {
			unstored = true
		}
		list = slices.Delete(list, i, i+1)
	} else {
		unstored = true
	}
	t.keep(append(list, l))
	return l, unstored
}

// keep stores the locations of an account, the last used last.
func (t *trustedLocations) keep(list []TrustedLocation) {
	if extra := len(list) - MaxLocations; extra > 0 {
		list = slices.Delete(list, 0, extra)
	}
	t.accounts.Put(list[0].Account, list)
}

// LoadTrusted adds locations that were stored, by this node before a restart or by another one.
func (t *Limiter) LoadTrusted(stored []TrustedLocation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range slices.Backward(stored) { // the last used ones stay if there are too many
		list, i := t.trusted.index(l.Account, l.Location)
		if i >= 0 {
			continue
		}
		list = append(list, l)
		slices.SortStableFunc(list, func(a, b TrustedLocation) int { return a.Used.Compare(b.Used) })
		t.trusted.keep(list)
	}
}

// UseDevice records the device of a successful attempt. isNew means that the account had logged in
// with other devices only. l has to be stored if unstored.
func (a *Attempt) UseDevice(device string, now time.Time) (l TrustedLocation, unstored, isNew bool) {
	a.t.mu.Lock()
	defer a.t.mu.Unlock()
	return a.t.trusted.useDevice(a.account.username, device, now)
}

// Unstored returns the location of a successful attempt, and reports whether it has to be stored.
func (a *Attempt) Unstored() (TrustedLocation, bool) { return a.location, a.unstored }
