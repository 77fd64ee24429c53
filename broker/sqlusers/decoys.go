package sqlusers

import (
	"hash/maphash"
	"strings"
	"sync"
)

// samples is the number of hashes that represent those of the table.
const samples = 64

// decoyHashes are hashes of existing users that are checked for unknown names, so that both cost
// the same. Tables may have several schemes and costs. A name must always get the same hash, and
// names must be distributed over hashes as users are. A secret hash therefore maps names to slots,
// and a slot keeps the hash of the first user that it got.
type decoyHashes struct {
	seed maphash.Seed

	mu    sync.Mutex
	taken [samples]decoyHash
}

type decoyHash struct {
	owner uint64 // hash of the user's id
	hash  string // "": the slot is empty
}

func newDecoyHashes() *decoyHashes { return &decoyHashes{seed: maphash.MakeSeed()} }

// note stores the hash of a user, if its slot is empty or its own.
func (d *decoyHashes) note(id, hash string) {
	owner := maphash.String(d.seed, "user "+id)
	d.mu.Lock()
	defer d.mu.Unlock()
	if place := &d.taken[owner%samples]; place.hash == "" || place.owner == owner {
		*place = decoyHash{owner, hash}
	}
}

// of returns the hash for an unknown name; "" if no hash is known. Case does not matter, because
// queries may ignore it. It skips empty slots, which become rare after some dozens of logins.
func (d *decoyHashes) of(name string) string {
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
