module github.com/ruedahq/rueda/bench/clients

go 1.26.0

replace github.com/ruedahq/rueda => ../..

require (
	github.com/alpacahq/alpaca-trade-api-go/v3 v3.9.1
	github.com/coder/websocket v1.8.15
	github.com/ruedahq/rueda v0.0.0-00010101000000-000000000000
	github.com/vmihailenco/msgpack/v5 v5.4.1
)

require (
	cloud.google.com/go v0.118.0 // indirect
	github.com/josharian/intern v1.0.0 // indirect
	github.com/mailru/easyjson v0.7.7 // indirect
	github.com/shopspring/decimal v1.3.1 // indirect
	github.com/vmihailenco/tagparser/v2 v2.0.0 // indirect
)
