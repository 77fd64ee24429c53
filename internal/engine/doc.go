// Package engine documents its folders, which are the path of market data: from an
// event of a feed, through the log and the rings, to the bytes of a socket.
//
//	How does an event become a row of the log?                         hub/number.go
//	Which message does a row make?                                     hub/apply.go
//	What does an event change in a book?                               hub/book.go
//	How does a message get into the rings?                             hub/topic.go
//	When is a row on disk, and seen by readers?                        hub/commit.go
//	What does a restart read?                                          hub/restore.go
//	How does delayed data come?                                        hub/replica_run.go
//	What does a client message do?                                     session/request.go
//	When may a session go on with a new token?                         session/token.go
//	How does a resume continue?                                        subscription/resume.go
//	What does a shard send to a connection?                            subscription/gather.go
//	What does a shard do, again and again?                             socket/shard.go
//	What does the event loop get from the kernel?                      socket/loop.go
//	How are rows stored?                                               journal/write.go
//	How are rows found again?                                          journal/read.go
//	Which feed has an instrument?                                      feeds/registry.go
//	Who may see which market data?                                     entitlement/entitlement.go
package engine
