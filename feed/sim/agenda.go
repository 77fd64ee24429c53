package sim

import (
	"math"
	"slices"
)

// never is a virtual time that does not come.
const never = int64(math.MaxInt64)

// agenda is what the exchange itself does at its hour: sessions, auctions, halts. It is
// short, so a sorted slice will do; the next is at the end.
type agenda struct {
	tasks []task
	count uint64
}

// task is one thing to do. Of two at the same time the one that was put down first goes first.
type task struct {
	at    int64
	order uint64
	do    func()
}

// add puts something down.
func (a *agenda) add(at int64, do func()) {
	a.count++
	t := task{at: at, order: a.count, do: do}
	i, _ := slices.BinarySearchFunc(a.tasks, t, func(x, t task) int {
		if x.at > t.at || x.at == t.at && x.order > t.order {
			return -1
		}
		return 1
	})
	a.tasks = slices.Insert(a.tasks, i, t)
}

// next is when the next task is due; never without one.
func (a *agenda) next() int64 {
	if len(a.tasks) == 0 {
		return never
	}
	return a.tasks[len(a.tasks)-1].at
}

// take takes the next task off.
func (a *agenda) take() task {
	n := len(a.tasks) - 1
	t := a.tasks[n]
	a.tasks[n] = task{}
	a.tasks = a.tasks[:n]
	return t
}
