// Package check judges what a gateway says about a market of package market.
//
// A [Judge] checks each message by itself, and that a series and N always name the same message, on
// every connection, in replays and in history. A [Client] keeps its subscriptions and numbers
// across connections, resumes by N and by position, changes its set, and checks that nothing is
// lost or repeated. Both report to one [Report]. To use them:
//
//	m := market.New(seed, time.Now(), 25*time.Millisecond, 6)
//	p := producer.New(producer.Config{Market: m, Name: "p", Resume: "r", Addresses: feeds})
//	go p.Run(ctx)
//	report := check.NewReport()
//	judge := check.NewJudge(m, report)
//	c := check.NewClient(check.ClientConfig{Name: "c1", Addresses: gateways, User: u, Password: pw,
//		Judge: judge, Seed: 1})
//	go c.Run(ctx)
//	... faults; then the end of a phase:
//	end := p.StopAt(time.Now()) // then wait until p.Drained()
//	c.Calm(true)                // no more actions: the client stays connected, or resumes
//	judge.History(ctx, address, token, end) // all rows over REST, and whether each N is there
//	c.Behind(judge.Final()) // "" when the client has the newest N of each series that it subscribes
//	p.Continue()
//	c.Calm(false)
//
// A second epoch is a violation unless Judge.Epochs is true, and so are lost rows without
// Judge.Missing. Summaries and bars of later epochs are counted from rows that the judge does not
// know, and are not judged.
package check
