// Package api has no code of its own. Its folders contain what a gateway answers over HTTP: the
// routes of REST, the OpenAPI and AsyncAPI documents, and the web pages.
//
//	Which function serves a route?                             rest/routes.go
//	Which routes are documented, and how?                      openapi/public.go
//	How is a page of history made?                             rest/history/page.go
//	How does the stream work over HTTP?                        rest/sse/sse.go
//	Which schemas do the messages of the stream have?          asyncapi/asyncapi.json
//	Which status, cause and remedy does an error reason have?  reason/entries.go
//	How are the pages at /docs made?                           docsite/site.go
//	How are the packages of the clients made?                  downloads/downloads.go
package api
