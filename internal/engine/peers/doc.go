// Package peers shares the sessions of users between the nodes of a cluster, as a state machine
// without I/O.
//
// Each node has a [Table]: its own sessions, and what the other nodes say about theirs. A node
// sends the whole list of a user's sessions when it changes. So a message may come twice, and the
// next one replaces a lost one. Each message has the number of its change. A node that misses
// one asks for all lists of the sender, and uses the new lists meanwhile.
//
// # Names
//
// A session name of a user belongs to the session that took it last. Claims have an order that all
// nodes agree on, which follows the order in which nodes heard of each other. Claims of nodes that
// could not hear of each other are ordered by their clocks.
//
// # Limits
//
// A session is within the limit of its user if fewer earlier sessions than the limit exist on all
// nodes together. Two nodes may admit sessions at the same time and learn of each other later. The
// newest sessions are then closed. They are those that a single node would have refused.
//
// # Nodes that are away
//
// A node that was not heard for Config.Lease does not count. A node that cannot reach the others
// therefore applies the limits to its own sessions only. When it is back, the nodes exchange their
// lists, and close what one node would have closed.
package peers
