// Package docsite serves the documentation of a gateway at /docs: the documents of package docs,
// the guides and references of the clients, and a search. Each route of REST, each channel and
// operation of the stream and each reason word has a page.
//
// The pages of documents are rendered from Markdown. HTML in a document appears as text. The pages
// of routes and channels are generated from the OpenAPI and AsyncAPI documents, so that they
// describe what the gateway serves. All pages work without JavaScript. With JavaScript, a reader
// can sign in, send a request or a message from a page, and copy programs that contain the reader's
// own token.
//
// # Concurrency
//
// A Site is safe for any number of goroutines. It renders a page at the first request for it and
// keeps the compressed page. The set of pages is fixed, which bounds the memory. A Site starts no
// goroutine.
package docsite
