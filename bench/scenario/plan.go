package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Defaults of measurements, for which their bounds are defined.
const (
	defaultRuns       = 5
	defaultWindow     = 5 * time.Second
	defaultWarmup     = 2 * time.Second
	defaultHeartbeats = 20 * time.Second
	defaultSlowFor    = 12 * time.Second
)

// Runs returns the default number of pairs of a measurement.
func Runs(what string) int {
	switch what {
	case "slow":
		return slowRuns
	case "compare":
		return comparePairs
	case "hostile":
		return hostileRuns
	}
	return defaultRuns
}

// sizesOf returns the numbers of connections that the bounds of a measurement are for.
func sizesOf(what string) []int {
	switch what {
	case "compare":
		return []int{0} // each workload has its own
	case "fanout", "ceiling":
		return fanoutSizes()
	case "latency":
		return []int{latencyConns}
	case "idle":
		return []int{idleConns}
	case "connect":
		return []int{connectConns}
	case "slow":
		return []int{slowConns}
	case "hostile":
		return []int{hostileReaders}
	case "auth":
		return []int{authClients}
	case "resume":
		return []int{resumeConns}
	}
	return []int{millionConns}
}

// Workloads returns the names of a measurement's workloads, for Options.Only.
func Workloads(what string, o Options) []string {
	size := o.sizes(sizesOf(what)...)[0]
	var works []*work
	var names []string
	switch what {
	case "fanout":
		for _, w := range fanouts(o.sizes(fanoutSizes()...)) {
			works = append(works, &w)
		}
		conns := o.sizes(spreadConns)[0]
		one, wild := wildWorks(conns)
		works = append(works, &work{name: spreadName(conns, false)}, &work{name: spreadName(conns, true)}, one, wild)
	case "compare":
		for _, s := range o.scenarios("") {
			names = append(names, s.name)
		}
	case "ceiling":
		works = o.ceilings()
		names = []string{connectCase(o.sizes(connectConns)[0]).Name, pingsName(o.sizes(idleConns)[0])}
	case "latency":
		works = o.latencies()
	case "idle":
		for _, kind := range idleKinds() {
			names = append(names, idleName(kind, size))
		}
	case "slow":
		names = []string{slowStopped, slowTenth}
	case "hostile":
		for _, a := range attacks() {
			names = append(names, a.name)
		}
	case "history":
		names = []string{historyQuestions, historyJournal, historyDelays}
	case "auth":
		names = []string{authStore, authRefresh, authPostgres, authVerify, authLogin}
	case "connect":
		names = []string{connectCase(size).Name}
	case "resume":
		names = []string{resumeName(size)}
	case "million":
		names = []string{millionName(size)}
	}
	var all []string
	for _, w := range works {
		all = append(all, w.name)
	}
	return append(all, names...)
}

// UnknownWorkload is the error of a measurement without a matching workload.
type UnknownWorkload struct {
	Only  string
	Names []string // existing names
}

func (u *UnknownWorkload) Error() string {
	return fmt.Sprintf("no workload has %q in its name", u.Only)
}

// wants reports whether one of these workloads is selected.
func (o *Options) wants(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.Contains(name, o.Only) })
}

// begin sets the defaults of the options and begins the report.
func (o *Options) begin(what string) (*Report, error) {
	if names := Workloads(what, *o); !o.wants(names...) {
		return nil, &UnknownWorkload{o.Only, names}
	}
	if o.Runs <= 0 {
		o.Runs = Runs(what)
	}
	o.fill()
	r := newReport(what, o)
	r.Reduced = o.reduced(what)
	return r, nil
}

// reduced describes deviations from the defaults of a measurement; "": none.
func (o *Options) reduced(what string) string {
	var list []string
	if o.Conns > 0 && !slices.Contains(sizesOf(what), o.Conns) {
		list = append(list, plural(o.Conns, "connection"))
	}
	if name := startName(o.journalTrades()); what == "compare" && o.journalTrades() < startTrades && o.wants(name) {
		list = append(list, name)
	}
	if o.Runs < Runs(what) {
		list = append(list, plural(o.Runs, "run"))
	}
	if windowed := what == "fanout" || what == "latency" || what == "slow" || what == "auth" || what == "compare" || what == "hostile"; windowed {
		if o.Window < defaultWindow {
			list = append(list, fmt.Sprintf("windows of %v", o.Window))
		}
		if o.Warmup < defaultWarmup {
			list = append(list, fmt.Sprintf("%v before them", o.Warmup))
		}
	}
	if (what == "idle" || what == "compare") && o.Heartbeats < defaultHeartbeats {
		list = append(list, fmt.Sprintf("pings every %v", o.Heartbeats))
	}
	if what == "slow" && o.SlowFor < defaultSlowFor {
		list = append(list, fmt.Sprintf("slow for %v", o.SlowFor))
	}
	if o.Procs > 0 {
		list = append(list, fmt.Sprintf("GOMAXPROCS=%d", o.Procs))
	}
	return strings.Join(list, ", ")
}
