package session_test

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/session/talk"
)

// TestTalk runs the protocol conversations against bare sessions, exact to the
// millisecond.
func TestTalk(t *testing.T) {
	scripts, err := talk.Load(os.DirFS("testdata"))
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		t.Run(script.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				world, err := script.World()
				if err != nil {
					t.Fatal(err)
				}
				h := newHost(world)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					h.run(ctx)
				}()
				hub := make(chan error)
				go func() { hub <- world.Hub.Run(ctx) }()
				script.Run(t, world, talk.Host{Dial: h.dial, Settle: synctest.Wait, Tolerance: time.Millisecond})
				cancel()
				<-done
				if err := <-hub; err != nil {
					t.Error(err)
				}
				if n := world.Env.Registry.Len(); n != 0 {
					t.Errorf("%d sessions are left in the registry", n)
				}
			})
		})
	}
}
