// Command rueda is the gateway and its tools. rueda --help lists its commands.
package main

import (
	"os"
	_ "time/tzdata" // market hours, on systems without time zones too

	"github.com/ruedahq/rueda/internal/ops/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:]))
}
