package command

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/ops/config"
)

// duration is the value of a flag. It may be in days, such as 7d, as in configurations.
type duration time.Duration

func (d *duration) Set(s string) error {
	v, err := config.ParseDuration(s)
	*d = duration(v)
	return err
}

func (d *duration) String() string {
	if *d == 0 {
		return "" // the help shows no default
	}
	return time.Duration(*d).String()
}

// Type implements pflag.Value. It returns the placeholder that the help shows.
func (*duration) Type() string { return "duration" }

// ForFlag adds the flag --for, the time after which a command stops.
func ForFlag(cmd *cobra.Command, d *time.Duration, about string) {
	cmd.Flags().Var((*duration)(d), "for", about)
}
