package socket

import (
	"strconv"
	"syscall"
)

// kernel makes the system calls of the event loop. Tests make each of them fail.
type kernel struct {
	// fault returns the error that a call is to return instead of being made; 0: it is made. fd is
	// the socket, and arg its id if the call is callWatch. It is nil outside of tests.
	fault func(call syscallID, fd int32, arg int32) syscall.Errno
}

// step is a part of the work for one connection. Tests make each of them panic.
type step uint8

const (
	stepAddSocket    step = iota // adds an accepted socket
	stepHead                     // handles a part of the request
	stepTLSHandshake             // runs the TLS handshake, on its own goroutine
	stepVerified                 // handles the result of a token check
	stepMessage                  // handles a frame
	stepHandled                  // has handled a frame
	stepGather                   // takes output from the session
	stepSent                     // reports written output to the session
	stepFlush                    // flushes the connection
	stepTimer                    // handles a deadline
	stepEvent                    // passes an event of the registry on
	stepCloseAll                 // closes the connection with all others
	stepClose                    // ends the session
	stepRead                     // reads a netConn, on its own goroutine
	stepWrite                    // writes a netConn, on its own goroutine
	stepCount
)

// reach calls the test hook, if there is one.
func (s *Server) reach(c *conn, st step) {
	if s.onStep != nil {
		s.onStep(c, st)
	}
}

// syscallID identifies a system call of a connection.
type syscallID uint8

const (
	callAccept     syscallID = iota // accept4
	callPeer                        // getpeername
	callOption                      // setsockopt
	callDuplicate                   // fcntl, to move a socket to or from net/http
	callWatch                       // epoll_ctl
	callRead                        // read
	callWrite                       // write
	callSubmit                      // io_uring_enter
	callCompletion                  // the result of one send in the completion queue
	callShutdown                    // shutdown
	callClose                       // close
	callCount
)

// String returns the kernel's name of the call.
func (c syscallID) String() string {
	names := [callCount]string{"accept4", "getpeername", "setsockopt", "fcntl", "epoll_ctl", "read", "write",
		"io_uring_enter", "io_uring completion", "shutdown", "close"}
	if c < callCount {
		return names[c]
	}
	return "call " + strconv.Itoa(int(c))
}

// inject returns the error of a call that a test wants to fail; 0: make the call.
func (k *kernel) inject(call syscallID, fd int32) syscall.Errno {
	if k.fault == nil {
		return 0
	}
	return k.fault(call, fd, 0)
}
