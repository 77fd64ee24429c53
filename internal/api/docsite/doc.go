// Package docsite serves the documentation of a gateway at /docs: the documents of package docs,
// the guides and references of the clients, and a search. Each route of REST, each channel and
// message of the stream and each reason word has a page.
//
// The pages of documents are made from Markdown. HTML in it is not passed on. The pages of routes
// and channels are made from the OpenAPI and AsyncAPI documents, so that they describe what is
// served. All pages work without JavaScript. With it, a reader can sign in, send a request or a
// message from a page, and copy programs that contain the reader's own token.
//
// # Concurrency
//
// A Site is safe for any number of goroutines. It makes a page at the first request for it and
// keeps it compressed. The set of pages is fixed, which bounds the memory. It starts no goroutine.
package docsite
