package admin

import (
	"fmt"
	"os"
	"testing"
)

// TestCommandLineActor checks that the audit log names the person who used sudo, and no other text
// of the environment.
func TestCommandLineActor(t *testing.T) {
	uid := os.Getuid()
	if uid < 0 {
		return // there are no user ids
	}
	for person, want := range map[string]string{
		"": "", "ana": ", sudo by ana", "ana.perez@broker.example": ", sudo by ana.perez@broker.example",
		"ana) user_added": "", "a\nb": "", "-x": "",
	} {
		t.Setenv("SUDO_USER", person)
		if got := commandLine(); got != fmt.Sprintf("command line (uid %d%s)", uid, want) {
			t.Errorf("%q: %s", person, got)
		}
	}
}
