package sqlusers

import (
	"fmt"
	"strings"
	"testing"
)

// TestDecoyHashes checks that an unknown name costs what some user costs, always the same, and that
// two schemes of a table occur about as often as with its users.
func TestDecoyHashes(t *testing.T) {
	d := newDecoyHashes()
	if got := d.of("nobody"); got != "" {
		t.Fatalf("of an empty table: %q", got)
	}
	hash := func(user int) string {
		if user%4 == 0 {
			return "bcrypt"
		}
		return "argon2id"
	}
	const users = 3000 // they fill all slots
	for user := range users {
		d.note(fmt.Sprint(user), hash(user))
	}
	first, counts := map[string]string{}, map[string]int{}
	const names = 4000
	for n := range names {
		name := fmt.Sprint("nobody", n)
		first[name] = d.of(name)
		counts[first[name]]++
	}
	if b := counts["bcrypt"]; b == 0 || b > names*3/4 || b+counts["argon2id"] != names {
		t.Errorf("met: %v; want about a quarter of bcrypt", counts)
	}
	for user := range 2 * users { // other users log in
		d.note(fmt.Sprint(user), hash(user))
	}
	for name, want := range first {
		if d.of(name) != want || d.of(strings.ToUpper(name)) != want || d.of(" "+name) != want {
			t.Fatalf("%s costs another hash than before", name)
		}
	}
	for user := range users { // each with a new hash
		d.note(fmt.Sprint(user), "new")
	}
	for name := range first {
		if got := d.of(name); got != "new" {
			t.Fatalf("%s costs a hash that nobody has any more: %s", name, got)
		}
	}
}
