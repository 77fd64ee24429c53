package load

// phase is where a connection is.
type phase uint8

const (
	phaseClosed phase = iota
	phaseDialing
	phaseUpgrading
	phaseStepping
	phaseAwaiting // the states that belong to its set
	phaseReady
)

// conn is one connection.
type conn struct {
	fd        int32
	number    int32
	recent    int32 // the instrument of its last message
	snapshots int32 // to come before it is ready
	phase     phase
	step      uint8
	slow      bool   // it may be told to read slowly, and may be cut off
	carry     []byte // of a frame that is not whole
	inner     []byte // of a protocol inside of frames
	seen      []seen // by instrument and channel
}
