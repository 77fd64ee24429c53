package socket

import (
	"time"

	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/engine/socket/connlog"
)

// The input budget of a connection, which everything that its peer sends uses up. It is a rate in
// bytes. Frames and parts of frames count as more than they have, by what they cost the shard.
const (
	inputRate  = 256 << 10       // bytes a second
	inputBurst = 6 * time.Second // how much of the rate may be used at once: 1.5 MiB
	frameCost  = inputRate / 200 // of each frame in addition: 200 empty frames a second
	partCost   = 128             // of each part of a frame that arrives alone

	// Of each compressed byte in addition. A block of eleven bytes may be empty, and takes a
	// microsecond to inflate.
	inflateCost = 8

	// How much of the rate may be used at once before authentication: 64 KiB. New connections cost
	// their peer little.
	earlyBurst = 250 * time.Millisecond
)

// Past its budget a connection is paused: the shard does not read its socket, so that the flood
// costs its peer and nobody else. A pause is long enough to read several frames after it, and over
// within a second.
const (
	minPause = 100 * time.Millisecond
	maxPause = 900 * time.Millisecond
)

// pauseLogInterval is the least time between two log records of pauses of a shard. One peer can
// cause ten pauses a second.
const pauseLogInterval = time.Minute

// paused reports whether c is not read because its peer has sent too much.
func (c *conn) paused() bool { return c.pausedUntil != 0 }

// chargeInput charges n bytes of input, with the event that they ended with, to the budget of c. It
// pauses c if that exceeds the budget.
func (sh *shard) chargeInput(now time.Time, c *conn, n int, ev *Event) {
	if ev.Kind == EventNone {
		n += partCost
	} else {
		n += frameCost + ev.Inflated + inflateCost*ev.Deflated
	}
	t, burst := sh.server.deadline(now), inputBurst
	if c.phase == phaseOpen && !c.authenticated() {
		burst = earlyBurst
	}
	c.spent = max(c.spent, t) + deadline(time.Duration(n)*time.Second/time.Duration(inputRate*sh.inputScale(c)))
	debt := time.Duration(c.spent-t) - burst
	if debt <= 0 {
		return
	}
	pause := min(debt+minPause, maxPause)
	c.spent = t + deadline(burst-minPause+pause)
	c.ext().pausedUntil = t + deadline(pause)
	if c.phase == phaseOpen {
		c.sess.PauseInput(now, pause)
	}
	sh.figures.Pauses++
	if now.Sub(sh.pauseLogged) >= pauseLogInterval {
		sh.pauseLogged = now
		info := session.InfoOf(&c.sess, now)
		sh.server.connLog.Add(connlog.Event{Kind: connlog.Paused, Address: c.address(), User: info.User})
	}
}

// keepInput records what c has used up of its input budget, for later connections of its user.
func (sh *shard) keepInput(now time.Time, c *conn) {
	if ahead := time.Duration(c.spent - sh.server.deadline(now)); ahead > 0 {
		c.sess.KeepInput(now, ahead)
	}
}

// inheritInput charges c what earlier connections of its user have used up of their input budgets.
func (sh *shard) inheritInput(now time.Time, c *conn) {
	c.spent = max(c.spent, sh.server.deadline(now)+deadline(c.sess.KeptInput(now)))
}

// inputScale returns by what the input budget of c is multiplied: at least 1, and more if other
// limits are above their defaults.
func (sh *shard) inputScale(c *conn) int {
	scale := int(sh.server.maxMessage.Load() >> 16)
	if c.phase == phaseOpen {
		l := c.sess.Limits()
		scale = max(scale, l.MessagesPerSecond/20, l.Subscriptions/2000)
	}
	return max(1, scale)
}

// endPause reads c again if its pause is over. The next flush parses what was read before it.
func (sh *shard) endPause(now time.Time, c *conn) {
	if !c.paused() || sh.server.deadline(now) < c.pausedUntil {
		return
	}
	c.ext().pausedUntil = 0
	if c.phase == phaseOpen {
		c.sess.ResumeInput(now)
	}
}
