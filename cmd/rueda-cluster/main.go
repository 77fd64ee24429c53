// Command rueda-cluster runs a whole cluster of Rueda in one process, with its NATS servers, to try
// it on a laptop and to measure it. A real cluster has separate processes of rueda and nats-server;
// see docs/cluster.md. It is a module of its own, so that rueda does not contain a NATS server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = `Usage: rueda-cluster COMMAND

  dev     run three edges, two sequencers and NATS in this process
  bench   measure JetStream alone, and a sequencer and an edge with it
  catchup measure how long an edge needs to read a million rows of the stream

rueda-cluster COMMAND -h lists the flags.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "rueda-cluster:", err)
		stop()
		os.Exit(1)
	}
}

// run runs the command that args name.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		_, err := io.WriteString(out, usage)
		return err
	}
	switch args[0] {
	case "dev":
		return dev(ctx, args[1:], out)
	case "bench":
		return bench(ctx, args[1:], out)
	case "catchup":
		return catchUp(ctx, args[1:], out)
	case "help", "-h", "--help":
		_, err := io.WriteString(out, usage)
		return err
	}
	return fmt.Errorf("unknown command %q: %s", args[0], usage)
}

// newFlags returns the flags of a command.
func newFlags(name string) *flag.FlagSet {
	return flag.NewFlagSet("rueda-cluster "+name, flag.ContinueOnError)
}
