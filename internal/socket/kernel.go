package socket

import (
	"strconv"
	"syscall"
)

// A kernel makes the system calls of lines. It is there so that tests can have each of them fail.
type kernel struct {
	// fault is asked before each call, and names the error that the call is to return instead of
	// being made; 0: it is made. fd is the socket that the call is about, and arg its id where the
	// call is callWatch. nil, as in every program: no call fails but by itself.
	fault func(call call, fd int32, arg int32) syscall.Errno
}

// A step is a part of the work for one connection. Tests have each of them panic.
type step uint8

const (
	stepArrive   step = iota // a socket is taken in
	stepHead                 // a request has come
	stepShake                // the handshake of TLS is made, on its own goroutine
	stepVerified             // the check of a token is done
	stepMessage              // a frame is to be handled
	stepHandled              // and was
	stepGather               // output is taken from the session
	stepSent                 // and the session is told how much of it was written
	stepFlush                // the connection is flushed
	stepTimer                // a deadline has come
	stepNotice               // the registry has something to say
	stepDismiss              // the server ends
	stepClose                // the session is over
	stepRead                 // a pump reads, on its own goroutine
	stepWrite                // and writes
	stepCount
)

// at is where tests come in.
func (s *Server) at(c *conn, st step) {
	if s.trap != nil {
		s.trap(c, st)
	}
}

// A call is a system call that is made for a connection.
type call uint8

const (
	callAccept     call = iota // accept4
	callPeer                   // getpeername
	callOption                 // setsockopt
	callDuplicate              // fcntl, for a socket that net/http has or is to have
	callWatch                  // epoll_ctl
	callRead                   // read
	callWrite                  // write
	callSubmit                 // io_uring_enter
	callCompletion             // the result of one send in the completion queue
	callShutdown               // shutdown
	callClose                  // close
	callCount
)

// String names the call as the kernel does.
func (c call) String() string {
	names := [callCount]string{"accept4", "getpeername", "setsockopt", "fcntl", "epoll_ctl", "read", "write",
		"io_uring_enter", "io_uring completion", "shutdown", "close"}
	if c < callCount {
		return names[c]
	}
	return "call " + strconv.Itoa(int(c))
}

// fails says which error a call is to return; 0: it is to be made.
func (k *kernel) fails(call call, fd int32) syscall.Errno {
	if k.fault == nil {
		return 0
	}
	return k.fault(call, fd, 0)
}
