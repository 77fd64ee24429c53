package sim

import (
	"math"
	"slices"
)

// never is a virtual time that is never reached.
const never = int64(math.MaxInt64)

// taskQueue holds what the exchange itself does at fixed times: sessions, auctions, halts. It is
// short, so a slice is enough. It is sorted with the next task at the end.
type taskQueue struct {
	tasks []task
	count uint64
}

// task is something to do at a time. Tasks with the same time run in the order in which they were
// added.
type task struct {
	at    int64
	order uint64
	do    func()
}

// add adds a task.
func (a *taskQueue) add(at int64, do func()) {
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

// next returns the time of the next task, or never.
func (a *taskQueue) next() int64 {
	if len(a.tasks) == 0 {
		return never
	}
	return a.tasks[len(a.tasks)-1].at
}

// pop removes and returns the next task.
func (a *taskQueue) pop() task {
	n := len(a.tasks) - 1
	t := a.tasks[n]
	a.tasks[n] = task{}
	a.tasks = a.tasks[:n]
	return t
}
