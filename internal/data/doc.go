// Package data documents its folders, which read, check and write market data in
// files: recordings, capture formats of venues, exports of the journal.
//
//	How does a recording become a feed?  replay/replay.go
//	How is the format of a file found?   replay/open.go
//	What does rueda record write?        recording/writer.go
//	What does rueda verify check?        verify/report.go
//	Which columns does an export have?   export/columns.go
package data
