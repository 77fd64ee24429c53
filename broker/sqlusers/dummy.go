package sqlusers

import (
	"hash/maphash"
	"strings"
	"sync"
)

// samples is how many hashes stand for all that a table has.
const samples = 64

// dummies are hashes of users who were found, for those who are not: checking one of them costs what some user's does. A table
// may have hashes of several schemes and costs. Which one a name costs must not change from one attempt to the next,
// as a user's does not, and names must be spread over them as users are. So that each name has a place by a secret
// hash, and the place keeps the hash of the user who took it first.
type dummies struct {
	seed maphash.Seed

	mu    sync.Mutex
	taken [samples]dummy
}

type dummy struct {
	owner uint64 // hash of a user's id
	hash  string // "": the place is free
}

func newDummies() *dummies { return &dummies{seed: maphash.MakeSeed()} }

// note keeps the hash of a user who was found, if there is a place for it.
func (d *dummies) note(id, hash string) {
	owner := maphash.String(d.seed, "user "+id)
	d.mu.Lock()
	defer d.mu.Unlock()
	if place := &d.taken[owner%samples]; place.hash == "" || place.owner == owner {
		*place = dummy{owner, hash}
	}
}

// of is the hash for a name that nobody has; "" while none is known. Upper and lower case are one name, as a query may
// have it. A place that is free is the next one's: once some dozens of users have logged in, few are.
func (d *dummies) of(name string) string {
	at := maphash.String(d.seed, "name "+strings.ToLower(strings.TrimSpace(name))) % samples
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range uint64(samples) {
		if place := d.taken[(at+i)%samples]; place.hash != "" {
			return place.hash
		}
	}
	return ""
}
