package throttle

import (
	"context"
	"time"
)

// Shared counts attempts of all nodes of an installation. While it fails, each node uses limits of
// its own at half the rate.
type Shared interface {
	// Reserve charges every bucket and the account once, or returns a Refusal and charges nothing.
	// The account counts as failed until Settle. After an error it is unknown whether it charged.
	Reserve(ctx context.Context, r Reservation) (refused *Refusal, err error)

	// Settle ends a Reservation. Failed keeps its charges. Succeeded refunds the buckets and
	// forgets the failures of the account. Refunded refunds everything. A second call, or one for a
	// Reservation that was never charged, changes nothing; a Reserve with this ID that is still in
	// flight then charges nothing.
	Settle(ctx context.Context, r Reservation, s Settlement) error
}

// Reservation is one attempt in the shared limits.
type Reservation struct {
	ID      [16]byte // random, identifies the attempt
	Now     time.Time
	Account [32]byte // a keyed hash of the username and of the place
	Free    int      // failures of the account before it has to wait 1 s, 2 s, 4 s and so on to MaxBackoff
	Buckets []Bucket // of the address, its networks and the installation
}

// Bucket is a rate of the generic cell rate algorithm (GCRA): one attempt per Interval, with a
// burst of Burst.
type Bucket struct {
	Key      string // such as "address 192.0.2.1", "global"
	Interval time.Duration
	Burst    time.Duration
}

// Refusal is the reason for a refused Reservation.
type Refusal struct {
	Account bool // the account has to wait; else the bucket of this index
	Bucket  int
	Wait    time.Duration
}

// Settlement is the outcome of an attempt.
type Settlement int

// Settlements. Shared limits and stores know the first three.
const (
	Failed     Settlement = iota // wrong, and stays charged
	Succeeded                    // refunded, and the failures of the account are forgotten
	Refunded                     // not checked
	Incomplete                   // the password is correct, but not the second factor
	Unanswered                   // the user base did not answer
	Outside                      // the password is correct, but the client is in none of the user's networks
)

// MaxBackoff is the longest wait of an account. FailuresKept is how long its failures count.
const (
	MaxBackoff   = 15 * time.Minute
	FailuresKept = 24 * time.Hour
)
