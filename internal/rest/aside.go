package rest

import "runtime"

// aside runs f on a thread of its own that gives way to the others of this process, and waits for
// it: what is asked of the past is not to hold up what is told of the present. A panic of
// f is the caller's.
func aside(f func()) {
	done := make(chan any, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		giveWay()
		defer func() { done <- recover() }()
		f()
	}()
	if p := <-done; p != nil {
		panic(p)
	}
}
