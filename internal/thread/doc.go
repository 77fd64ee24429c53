// Package thread speaks to the kernel's scheduler about the calling thread. It knows nothing of the rest.
//
// A thread that works on, without a pause, keeps its processor for a slice of some milliseconds, whoever else wakes
// meanwhile; with few processors a message of the stream then waits as long. So what is not urgent gives way between
// two pieces of its work of 30 microseconds each, and where somebody did want the processor rests for nineteen times
// as long as it worked: it takes a twentieth of one processor of a busy machine, and what is left keeps the queues for it
// short. With 160,000 deliveries a second on two processors, rests four times as long, and pieces of a fifth, made the 99th
// percentile of their latency half as much again; these make it a tenth to two fifths more. All rests of one work have a bound,
// since others wait for it. Outside Linux nothing of this is done.
package thread
