package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/base/progress"
)

// startProgress is how far a gateway has read its journal. It is safe for concurrent use.
type startProgress struct{ text atomic.Pointer[string] }

// note records a step. It is gateway.Config.OnStart.
func (s *startProgress) note(step gateway.StartStep, done, total int64) {
	text := describeStart(step, done, total)
	s.text.Store(&text)
}

// String returns the newest step.
func (s *startProgress) String() string {
	if text := s.text.Load(); text != nil {
		return *text
	}
	return string(gateway.ReadsJournal)
}

// describeStart describes a step with numbers.
func describeStart(step gateway.StartStep, done, total int64) string {
	amount := progress.Thousands
	if step == gateway.ReadsJournal {
		amount = progress.Bytes
	}
	return fmt.Sprintf("%s: %s of %s (%d %%)", step, amount(done), amount(total), 100*done/max(total, 1))
}

// logEvery is the interval between two records of a start in the log.
const logEvery = 5 * time.Second

// logStart returns a function for gateway.Config.OnStart that logs the progress of a long start.
func logStart(log *slog.Logger) func(gateway.StartStep, int64, int64) {
	next := time.Now().Add(logEvery)
	return func(step gateway.StartStep, done, total int64) {
		if now := time.Now(); now.After(next) {
			next = now.Add(logEvery)
			log.Info("starting", "status", describeStart(step, done, total))
		}
	}
}

// stopped reports whether a start ended with err because the program was asked to end. As after the
// start, this is not a failure.
func stopped(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, context.Canceled)
}
