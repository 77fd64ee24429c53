package jetstream

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestAttempt checks that a request without an answer is sent again, each time with more time, and
// that another error ends it.
func TestAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		began, sent := time.Now(), 0
		answer, err := attempt(ctx, func(ctx context.Context) (int, error) {
			if sent++; sent < 3 {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return sent, nil
		})
		if took := time.Since(began); answer != 3 || err != nil || took != 3*firstAttempt {
			t.Errorf("answer %d after %v, %v", answer, took, err)
		}
		refused := errors.New("refused")
		if _, err := attempt(ctx, func(context.Context) (int, error) { return 0, refused }); !errors.Is(err, refused) {
			t.Error(err)
		}
		silent := func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() }
		if _, err := attempt(ctx, silent); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 4*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
