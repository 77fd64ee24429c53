package gateway

// queueBlock is how many elements of a queue lie together.
const queueBlock = 1 << 10

// queue is first in, first out. It lies in blocks, so that no step moves many elements,
// and as much as came at once takes no room afterwards. The zero queue is empty.
type queue[T any] struct {
	blocks [][]T // none is empty
	size   int
}

// push puts x at the end.
func (q *queue[T]) push(x T) {
	last := len(q.blocks) - 1
	if last < 0 || len(q.blocks[last]) == cap(q.blocks[last]) {
		q.blocks = append(q.blocks, make([]T, 0, queueBlock))
		last++
	}
	q.blocks[last] = append(q.blocks[last], x)
	q.size++
}

// pop takes the first, which there is.
func (q *queue[T]) pop() T {
	x := q.blocks[0][0]
	if q.blocks[0] = q.blocks[0][1:]; len(q.blocks[0]) == 0 {
		q.blocks = q.blocks[1:]
	}
	q.size--
	return x
}
