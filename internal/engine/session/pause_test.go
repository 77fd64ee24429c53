package session_test

import (
	"testing"
	"time"
)

// TestPause checks that the time in which the host does not read does not count towards the timeout
// of a pong, to the nanosecond, and that the client is closed after it.
func TestPause(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name   string
		at     time.Duration // start of the pause; the ping is sent after 20 s
		pause  time.Duration
		resume time.Duration // when the host has read again, after the end of the pause
		want   time.Duration // the close
	}{
		{"before the ping", 19_000 * ms, 900 * ms, 15 * ms, 50_000 * ms},
		{"around the ping", 19_900 * ms, 300 * ms, 0, 50_200 * ms},
		{"around the ping, and read late", 19_900 * ms, 300 * ms, 15 * ms, 50_215 * ms},
		{"after the ping", 25_000 * ms, 900 * ms, 0, 50_900 * ms},
		{"after the ping, and read late", 25_000 * ms, 900 * ms, 15 * ms, 50_915 * ms},
		{"around the deadline", 49_990 * ms, 100 * ms, 5 * ms, 50_105 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDrive(t, "demo")
			begin := d.now
			until := func(at time.Duration) {
				for _, step := range []time.Duration{20 * time.Second, 40 * time.Second, at} {
					if now := d.now.Sub(begin); step > now && step <= at {
						d.pass(step - now)
						d.take() // the kernel accepts a ping at once
					}
				}
			}
			until(c.at)
			d.sess.PauseInput(d.now, c.pause)
			until(c.at + c.pause + c.resume)
			d.sess.ResumeInput(d.now)
			until(c.want - 1)
			if _, _, over := d.sess.Close(); over {
				t.Fatal("closed too early")
			}
			until(c.want)
			d.over(4504, "pong_timeout")
		})
	}
}

// TestPauseAnswered checks that a pong which is read after pauses is in time, and that a session
// keeps nothing of a pause.
func TestPauseAnswered(t *testing.T) {
	d := newDrive(t, "demo")
	d.pass(20 * time.Second)
	d.want(`{"action":"ping"}`)
	for range 40 { // of 0.9 s each: later than 30 s
		d.sess.PauseInput(d.now, 900*time.Millisecond)
		d.pass(900 * time.Millisecond)
		d.sess.ResumeInput(d.now)
		d.take()
	}
	d.text(`{"action":"pong"}`)
	d.pass(5 * time.Second)
	if _, _, over := d.sess.Close(); over {
		t.Error("closed")
	}
}
