package operation

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// TestOperator shows the operators of several tokens.
func TestOperator(t *testing.T) {
	t.Parallel()
	admin, _ := start(t, func(c *gateway.Config) {
		c.Admin.Tokens = ""
		for _, role := range []string{"read", "operate", "identity"} {
			c.Admin.Tokens += fmt.Sprintf("of-%s %x %s\n", role, sha256.Sum256([]byte("the-token-of-"+role)), role)
		}
	})
	for _, role := range []string{"read", "operate", "identity"} {
		status, out, errs := execute(t, "operator", "--admin", admin, "--token-file", writeFile(t, "the-token-of-"+role))
		if want := "of-" + role + "  " + role + "\n"; status != command.ExitOK || out != want {
			t.Errorf("%d %q %s, want %q", status, out, errs, want)
		}
	}
	if status, out, errs := execute(t, "operator", "--admin", admin, "--token-file", writeFile(t, "the-token-of-nobody")); status == command.ExitOK || out != "" || !strings.Contains(errs, "token") {
		t.Errorf("another token: %d %q %s", status, out, errs)
	}
}
