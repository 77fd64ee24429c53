package cli

import (
	"strings"

	"github.com/ruedahq/rueda/internal/bench"
)

const benchLong = `Bench measures this machine: deliveries a second and what they cost, latency, memory, connecting,
slow readers. Server and load are processes of their own. Where a bare program can do the work, which
does nothing but the system calls, each figure is compared with that program's, taken in the same call.
Every message is checked at its receiver, and a run that loses or doubles one fails.

Columns of the tables:
  of ceiling  the rate, of that of the bare program
  CPU s/M     processor seconds of the server for a million deliveries; load s/M: of the load
  cores       that the server used
  p50, p99    ms from an event to its receipt
  msgs/read   messages that the load read with one call; /write: that the gateway wrote with one
  allocs      of memory, by the gateway, for a delivery
  foreign     cores that other programs used: above 0.1 the machine was not quiet
  bad         runs in which messages went wrong; their figures are left out

The exit status is 1 where messages went wrong, or where a bound was not kept and --strict is given.
Bounds are for the default sizes; with others, or fewer or shorter runs, they are told and not judged.`

const (
	longCeiling = `Ceiling runs the bare program alone at all that the others compare themselves with: it shows what this
machine's kernel allows, and whether the machine is quiet. It has no bounds. By default it takes about
6 minutes.`

	longIdle = `Idle opens connections with three subscriptions each, on which nothing happens: resident memory of one, and
the processor time of the heartbeats. "plain" compares the heartbeats with those of a bare ping loop; "tls"
is one run, and is compared with nothing.

Heartbeats come every 20 s, so that a run takes at least 20 s, and --window is rounded down to a whole
number of them. By default it takes about 6 minutes.

Bounds: 0.7 KiB a plain connection, 11 KiB a TLS one; heartbeats cost 1.3 times those of the bare loop;
95 % of the pings that are due come.`

	longSlow = `Slow has readers stop ("stopped": one of 20, which --conns does not change) or read a tenth of what comes
("tenth": one of twenty), and looks at the others and the memory of the gateway. A bare program has no such
case: what is compared is a window before and one with the slow readers. By default it takes about 4
minutes. "tenth" has a third of the runs, since each is slow for 12 s.

Bounds: p99 of the others at most 1.25 times what it was; memory grows by no more than may wait for the slow;
quotes are at most 5 s old when the kernel takes them; trades are complete, or the connection is cut off.`

	longHistory = `History has the past asked for, in pages of 10,000 trades without a pause, while 20 follow the present at
160,000 messages a second: what is compared is a window without and one with questions, in turn the one and
the other first. It tells, too, what the journal costs. A bare program has no such case. By default it takes
about 4 minutes.

Bound: p99 with questions at most 2 times that without.`

	longAuth = `Auth measures what tokens cost. "store" is refreshes a second of the store alone (64 at once, each committed to
the disk); "refresh" and "postgres" are refreshes over HTTP, compared with a bare program that makes one transaction
and one signature an answer; "verify" is the check of a token that was seen before; "login" is logins with
passwords, compared with argon2id alone, and the memory they take. By default it takes about 5 minutes.

PostgreSQL is measured where --postgres gives the URL of an empty database.

Bounds: 4,000 refreshes/s in SQLite's store and 8,000 in PostgreSQL's; 0.8 of the bare program; 1 µs a check;
0.95 of argon2id alone, with flat memory.`

	longResume = `Resume has clients come back after 5,000 trades each and take up where they were, while the market goes on.
A bare program has no such case. By default it takes about a minute.

It has no bound of time: every trade must come once and in order.`

	longMillion = `Million opens a million connections, authenticated and subscribed, to as many gateways as the limit of
descriptors asks for, and has one message reach all of them. A bare program has no such case. By default it
takes some minutes, and most of the memory is the kernel's: about 10 KiB a connection for its two ends.
See with --conns 10000 first.

It has no bound of time: all must be open, and the message must reach all.`

	longConnect = `Connect has clients come from nothing to their first quote: connect, upgrade, authenticate, subscribe,
snapshot. The bare program accepts, and answers with fixed messages. By default it takes about 2 minutes.

Bound: 0.75 of the connections a second of the bare program.`

	longLatency = `Latency measures the time from an event to its receipt, at rates that leave the machine half idle. By default
it takes about 5 minutes.

Bounds: 100 k/s: p50 at most 1.1 and p99 at most 1.2 times the bare program's. 160 k/s to 20: p99 at most
0.38 ms. The third has none.`

	longFanout = `Fanout publishes at full speed: "singles" one message a write, "batch16" sixteen, "burst16" and "trickle" as
much as has piled up, each to all of 1,000 and of 10,000 connections. These are compared with the bare
program. It can't do the work of the others: "spread" is the simulated market, where everybody follows ten
instruments of a hundred, with books or without; "one instrument" and "wildcard" run together and are
compared with each other. By default it takes about 15 minutes.

Bounds: 0.90 of the deliveries of the bare program; at 1,000 connections 2.6 s of the server's processor a
million for singles and 0.20 s for batch16 and burst16; at 10,000 but for singles 5 million deliveries/s;
spread 4 million; the wildcard costs what one instrument does, 5 % more being noise.`
)

// benchHelp is the long help of a measurement, with the names of its workloads if there are several.
func benchHelp(b *benchmark) string {
	names := bench.Workloads(b.name, bench.Options{})
	if b.takes&takesOnly == 0 {
		return b.long
	}
	return b.long + "\n\nWorkloads, for --only:\n" + wrapped(names, 100)
}

// wrapped writes names as lines of at most so many characters.
func wrapped(names []string, width int) string {
	var text strings.Builder
	line := " "
	for i, name := range names {
		if len(line)+len(name)+3 > width {
			text.WriteString(line + "\n")
			line = " "
		}
		line += " " + name
		if i+1 < len(names) {
			line += ";" // names have commas
		}
	}
	text.WriteString(line)
	return text.String()
}
