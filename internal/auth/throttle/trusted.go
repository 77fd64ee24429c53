package throttle

import (
	"net/netip"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/cache"
)

const (
	// MaxLocations bounds the trusted locations of one account. The last used ones are kept, so that
	// one account cannot evict those of others.
	MaxLocations = 64
	// LocationsKept is how long an account is trusted at a location after its last login there.
	LocationsKept = 180 * 24 * time.Hour
	// MaxTrustedAccounts bounds the accounts whose locations are in memory.
	MaxTrustedAccounts = 1 << 17
	// storedFor is how long the use of a location is not stored again.
	storedFor = 24 * time.Hour
)

// TrustedLocation is a place where an account has logged in. Both names are keyed hashes: a copy of
// the database reveals neither.
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
	l = TrustedLocation{t.hash("trusted account", username), t.hash("trusted location", place.String()), now}
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
	t.put(append(list, l))
	return l, unstored
}

// put stores the locations of an account, the last used last.
func (t *trustedLocations) put(list []TrustedLocation) {
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
		t.trusted.put(list)
	}
}

// Unstored returns the location of a successful attempt, and reports whether it has to be stored.
func (a *Attempt) Unstored() (TrustedLocation, bool) { return a.location, a.unstored }

// Trusted reports whether the account has logged in at the location of the attempt before.
func (a *Attempt) Trusted() bool { return a.known }
