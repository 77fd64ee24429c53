package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// TestTriggerNotNow checks the exit status of a fault that the server refuses.
func TestTriggerNotNow(t *testing.T) {
	t.Parallel()
	url, _ := standIn(t, 86400, func(ctx context.Context, conn *websocket.Conn) error {
		return errors.Join(hear(ctx, conn, `"auth_token"`), say(ctx, conn, success), hear(ctx, conn, `"correction"`),
			say(ctx, conn, `{"type":"Error","code":422,"reason":"unsupported_option","msg":"no trade","id":1,"hint":"later"}`))
	})
	if status, out, talk := execute(t, "trigger", "correction", "--url", url); status != command.ExitError || out != "" || !strings.Contains(talk, "no trade") {
		t.Errorf("%d: %s%s", status, out, talk)
	}
}

// TestTriggerSends checks that the request has the protocol's word for the fault, and for a fault
// of connections excludes the program's own.
func TestTriggerSends(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"bust":       `{"action":"sim","fault":"cancel","id":1}`,
		"disconnect": `{"action":"sim","fault":"disconnect","id":1,"others":true}`,
		"speed":      `{"action":"sim","fault":"speed","id":1}`,
		"speed 2.5":  `{"action":"sim","fault":"speed","id":1,"speed":2.5}`,
	} {
		url, _ := standIn(t, 86400, func(ctx context.Context, conn *websocket.Conn) error {
			return errors.Join(hear(ctx, conn, `"auth_token"`), say(ctx, conn, success), hear(ctx, conn, want),
				say(ctx, conn, `{"type":"Sim","code":200,"msg":"So be it","id":1,"fault":"x"}`))
		})
		if status, out, talk := execute(t, append(append([]string{"trigger"}, strings.Fields(args)...), "--url", url)...); status != command.ExitOK || out != "So be it\n" {
			t.Errorf("%s: %d: %s%s", args, status, out, talk)
		}
	}
}

// TestTriggerSpeed checks that only a speed that the protocol allows is sent.
func TestTriggerSpeed(t *testing.T) {
	t.Parallel()
	for _, speed := range []string{"0", "1001", "nan", "fast", "GGAL|BYMA|24hs"} {
		if status, _, talk := execute(t, "trigger", "speed", speed, "--url", "http://127.0.0.1:1"); status != command.ExitUsage || !strings.Contains(talk, "from 0.1 to 1000") {
			t.Errorf("%s: %d: %s", speed, status, talk)
		}
	}
}
