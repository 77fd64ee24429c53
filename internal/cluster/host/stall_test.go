package host

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/engine/hub"
)

// TestStalledNode requires that a node which handles no events, as with a disk that does not
// respond, is not ready and reports its market as cut off, until it continues.
func TestStalledNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &Host{cfg: Config{Hub: hub.New(hub.Config{Following: true}), Setup: &Setup{}}, log: slog.New(slog.DiscardHandler), began: time.Now()}
		port := h.cfg.Hub.NewPort(func(bool) {})
		h.joined.Store(true)
		h.shown.Store(&cluster.Show{Allowed: true, Current: true})
		h.setCurrent()
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		defer watching.Wait()
		defer cancel()
		watching.Go(func() { h.watch(ctx) })
		check := func(when string, stalled bool) {
			t.Helper()
			synctest.Wait()
			port.Lock()
			cutOff := hub.IsCutOff(port)
			port.Unlock()
			if err := h.Ready(); errors.Is(err, errStalled) != stalled || err == nil == stalled || cutOff != stalled {
				t.Errorf("%s: %v, cut off: %v", when, err, cutOff)
			}
		}
		for range 20 {
			h.markHandled()
			time.Sleep(checkEvery)
		}
		check("events are handled", false)
		time.Sleep(5 * time.Second)
		check("no events are handled", true)
		for range 5 {
			h.markHandled()
			time.Sleep(checkEvery)
		}
		check("events are handled again", false)
	})
}
