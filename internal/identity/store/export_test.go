package store

import "time"

// SetLimit sets how long an operation may take.
func (s *Postgres) SetLimit(limit time.Duration) { s.limit = limit }
