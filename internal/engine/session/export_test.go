package session

import "time"

// Units of work, for the tests of package session_test.
const (
	WorkPerSecond = workPerSecond
	WorkBurst     = workBurst
)

// Changing reports whether a message in pieces has begun to change the set.
func (s *Session) Changing() bool {
	p := s.inProgress()
	return p != nil && p.request.work != nil
}

// SetPiece sets how many identifiers of a message are handled at once.
func (e *Env) SetPiece(n int) { e.piece = n }

// Owed returns how many units of the allowance of a user have not recovered.
func (e *Env) Owed(user string, now time.Time) int {
	r := e.Registry
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(max(0, time.Duration(r.debts[user].work-e.at(now))) / unitTime)
}

// Spend charges a user for work.
func (e *Env) Spend(user string, now time.Time, units int) { e.Registry.pay(user, e.at(now), units) }

// Debts returns for how many users a debt is recorded.
func (r *Registry) Debts() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.debts)
}

// Prices has the prices of work by name. Those below 1 are the inverse of what one unit pays for.
func Prices() map[string]float64 {
	return map[string]float64{
		"message": priceMessage, "identifier": priceIdentifier, "added": priceAdded, "removed": priceRemoved,
		"moved": priceMoved, "snapshot": priceSnapshot, "resumed": priceResumed, "hint": priceHint,
		"msgpack": 1. / perMsgpack, "compressed": priceCompressed,
		"set": 1. / perSet, "level": 1. / perLevels, "looked": 1. / perLooked, "row": 1. / perRows,
		"compared": 1. / perCompared, "value": 1. / perValues, "deflated": 1. / perDeflated, "byte": 1. / perBytes,
	}
}
