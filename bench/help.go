package main

import (
	"strings"

	"github.com/ruedahq/rueda/bench/scenario"
)

const benchLong = `Bench measures this machine: messages per second and their cost, latency, memory, connecting, and
slow readers. Server and load run in separate processes. Where possible, each figure is compared with
that of a bare program that makes only the system calls, measured in the same call. The receiver
checks every message, and a run that loses or repeats one fails.

Columns of the tables:
  of ceiling  the rate as a share of the bare program's rate
  CPU s/M     processor seconds of the server for a million deliveries
  load s/M    the same for the load
  cores       cores that the server used
  p50, p99    ms from an event to its receipt
  msgs/read   messages per read of the load; /write: per write of the gateway
  allocs      memory allocations of the gateway per delivery
  foreign     cores that other programs used: above 0.1 the machine was not idle
  bad         runs with wrong messages; their figures are left out

The exit status is 1 if messages were wrong, or if a bound was exceeded and --strict is given.
Bounds are for the default sizes. With other sizes, or with fewer or shorter runs, they are printed
but not enforced.`

const (
	longCeiling = `Ceiling runs only the bare program, for all cases that the others compare with. It shows what this
machine's kernel allows, and whether the machine is idle. It has no bounds. By default it takes about
6 minutes.`

	longIdle = `Idle opens connections with three subscriptions each and sends no data. It measures the resident memory
of a connection, and the processor time of the heartbeats. "plain" compares the heartbeats with those of
a bare ping loop. "tls" is one run without a comparison.

Heartbeats are sent every 20 s, so a run takes at least 20 s, and --window is rounded down to a whole
number of them. By default it takes about 6 minutes.

Bounds: 0.7 KiB per plain connection, 11 KiB per TLS connection; heartbeats cost at most 1.3 times those
of the bare loop; 95 % of the due pings are sent; a scrape of the metrics takes at most 10 ms of processor
time, its client included.`

	longSlow = `Slow has readers that stop ("stopped": one of 20, which --conns does not change) or read a tenth of the
data ("tenth": one of twenty). It measures the other readers and the memory of the gateway, in a window
before and in one with the slow readers. There is no bare program for this case. By default it takes
about 4 minutes. "tenth" has a third of the runs, since each is slow for 12 s.

Bounds: p99 of the others is at most 1.25 times that before; memory grows by at most the data that may be
pending for slow readers; quotes are at most 5 s old when the kernel accepts them; trades are complete,
or the connection is closed.`

	longHistory = `History sends history requests for pages of 10,000 trades without a pause, while 20 clients follow the
stream at 160,000 messages a second. It compares windows with and without the requests, in alternating
order, and measures the cost of the journal, and of data with no, one and three delays at 50,000 trades a
second ("delays"). There is no bare program for this case. By default it takes about 7 minutes.

Bound: p99 with history requests is at most 2 times that without.`

	longAuth = `Auth measures the cost of tokens. "store" is the number of refreshes per second of the store alone (64 at
once, each committed to disk). "refresh" and "postgres" are refreshes over HTTP, compared with a bare
program that makes one transaction and one signature per answer. "verify" is the check of a token that was
verified before. "login" is logins with passwords, compared with argon2id alone, and their memory. By
default it takes about 5 minutes.

PostgreSQL is measured if --postgres has the URL of an empty database.

Bounds: 4,000 refreshes/s in SQLite's store and 8,000 in PostgreSQL's; 0.8 of the bare program; 1 µs per
check; 0.95 of argon2id alone, with constant memory.`

	longResume = `Resume has clients reconnect after 5,000 trades each and resume, while the market continues. There is no
bare program for this case. By default it takes about a minute.

It has no bound of time. Every trade must be received once and in order.`

	longMillion = `Million opens a million connections, authenticated and subscribed, to as many gateways as the limit of
file descriptors requires, and sends one message to all of them. There is no bare program for this case.
By default it takes some minutes. Most of the memory is the kernel's: about 10 KiB per connection for its
two ends. Try it with --conns 10000 first.

It has no bound of time. All connections must be open, and all must receive the message.`

	longConnect = `Connect measures clients from the connection to the first quote: connect, upgrade, authenticate,
subscribe, snapshot. The bare program accepts, and answers with fixed messages. By default it takes
about 2 minutes.

Bound: 0.75 of the connections per second of the bare program.`

	longCompare = `Compare runs two serving programs, for example of two commits, in pairs of runs. Load and workloads are
those of this program, which should be the newer one. "make compare OLD=COMMIT" builds both and
calls it. Which program runs first alternates from pair to pair.

The figure is the median of the ratios of the pairs, with the 95 % order-statistic interval of the
pairs that were run. A ratio above 1 means that NEW is worse: old/new for rates, new/old for processor
time, latency, memory and starts. While an interval is wider than 0.06, there are more pairs, up to
--max-runs. Because they end when it is narrow, its coverage over many comparisons is a little lower,
about 94 %.

The verdict is "not slower" if the upper end is at most 1.05. If not, it is "slower" if the lower end
is above 1.05, or above 1 with an interval of at most 0.06. Otherwise, or if more than half of the
pairs are noisy, it is "undecided".

"fanout" and "latency" have the workloads of these commands, and "idle" their memory. "resume" and
"connect" are as there. "start" is from the start of the process to the ready gateway, on a new copy
of a journal that OLD writes once: 300,000 trades, each with a quote and a change of the book. With
--conns it has at most 100 trades for each connection. The report says so.

A pair is run again if other programs used more than 0.1 cores, at most five times for a workload, and
not more often than --max-runs exceeds --runs. After that it counts as noisy.

By default it takes over three hours. Choose workloads with --only. After an error or Ctrl-C, the report
has the workloads that were finished, and INCOMPLETE with the reason; --out replaces an older report.

Bound: 1.05, with --strict. An undecided figure does not fail.`

	longLatency = `Latency measures the time from an event to its receipt, at rates that leave half of the machine idle. By
default it takes about 5 minutes.

Bounds: 100 k/s: p50 at most 1.1 and p99 at most 1.2 times the bare program's. 160 k/s to 20: p99 at most
0.38 ms. The third has none.`

	longFanout = `Fanout publishes at full speed: "singles" one message per write, "batch16" sixteen, "burst16" and "trickle"
all that is pending, each to all of 1,000 and of 10,000 connections. These are compared with the bare
program. It cannot do the work of the others: "spread" is the simulated market, where each client follows
ten instruments of a hundred, with books or without; "one instrument" and "wildcard" run together and are
compared with each other. By default it takes about 15 minutes.

Bounds: 0.90 of the deliveries of the bare program; at 1,000 connections 2.6 s of the server's processor
time per million for singles and 0.20 s for batch16 and burst16; at 10,000, except for singles, 5 million
deliveries/s; spread 4 million; a wildcard costs as much as one instrument, within 5 % of noise.`
)

// benchHelp returns the long help of a measurement, with the names of its workloads if there are
// several.
func benchHelp(b *benchmark) string {
	names := scenario.Workloads(b.name, scenario.Options{})
	if b.takes&takesOnly == 0 {
		return b.long
	}
	return b.long + "\n\nWorkloads, for --only:\n" + wrapped(names, 80)
}

// wrapped joins names to lines of at most width characters.
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
			line += ";" // names contain commas
		}
	}
	text.WriteString(line)
	return text.String()
}
