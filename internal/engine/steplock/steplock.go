// Package steplock has a mutex for work that may be long.
//
// A [Mutex] counts what its holder visits. Long work is cut into pieces: it calls [Mutex.Step],
// which releases the mutex for a short time when the present hold has visited [Piece] things. Other
// goroutines then wait for one piece, and not for the whole work.
package steplock

import (
	"sync"
	"time"
)

// Piece limits the work of one hold: the number of events that it applies, and of instruments,
// subscriptions or topics that it visits.
const Piece = 128

// Mutex is a mutex that counts the visits of the present hold. The zero Mutex is ready for use.
type Mutex struct {
	mutex   sync.Mutex
	visited int     // by the present hold
	watcher Watcher // nil: nobody watches

	waits longest
}

// Longest returns the longest time that a goroutine has waited for the mutex in the last one to two
// minutes. The mutex is held.
func (m *Mutex) Longest() time.Duration {
	m.waits.add(time.Now(), 0)
	return max(m.waits.now, m.waits.before)
}

// Watcher observes the holds of a Mutex. Its methods are called while the mutex is held.
type Watcher interface {
	Locked()               // the goroutine that took the mutex calls it
	Unlocking(visited int) // at the end of a hold
}

// Watch makes w observe the following holds; nil: nobody does. The mutex is held, or nobody uses
// it. It is for tests that measure holds.
func (m *Mutex) Watch(w Watcher) { m.watcher = w }

// Lock takes the mutex and begins a hold. It reads the clock only if it has to wait.
func (m *Mutex) Lock() {
	if !m.mutex.TryLock() {
		began := time.Now()
		m.mutex.Lock()
		now := time.Now()
		m.waits.add(now, now.Sub(began))
	}
	m.visited = 0
	if m.watcher != nil {
		m.watcher.Locked()
	}
}

// Unlock ends a hold.
func (m *Mutex) Unlock() {
	if m.watcher != nil {
		m.watcher.Unlocking(m.visited)
	}
	m.mutex.Unlock()
}

// longest has the longest times of the present window and of the one before.
type longest struct {
	began       time.Time // of the present window
	now, before time.Duration
}

// window is the time whose longest wait is kept.
const window = time.Minute

// add notes a time. It begins another window when the present one has ended.
func (l *longest) add(now time.Time, d time.Duration) {
	switch age := now.Sub(l.began); {
	case age >= 2*window:
		l.before, l.now, l.began = 0, 0, now
	case age >= window:
		l.before, l.now, l.began = l.now, 0, now
	}
	l.now = max(l.now, d)
}

// Visit counts n visits of the present hold.
func (m *Mutex) Visit(n int) { m.visited += n }

// Pause ends the present hold and begins another. The mutex passes to a goroutine that has waited
// for a millisecond. Pause does not also yield the processor, because a feed would then wait for a
// time slice of the shards after every piece.
func (m *Mutex) Pause() {
	m.Unlock()
	m.Lock()
}

// Step counts n visits, and pauses when the present hold has reached Piece. Other goroutines may
// change what the mutex guards during the pause. paused reports whether there was one.
func (m *Mutex) Step(n int) (paused bool) {
	m.visited += n
	if paused = m.visited >= Piece; paused {
		m.Pause()
	}
	return paused
}
