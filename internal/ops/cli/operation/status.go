package operation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/api/adminapi"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// statusOptions are the flags of status.
type statusOptions struct {
	watch  bool
	every  time.Duration
	output string
}

// NewStatus returns the command status.
func NewStatus(std command.Streams) *cobra.Command {
	var s source
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show feeds, connections, rates, journal and cluster of a gateway",
		Long: `Status reads the metrics of a gateway twice, a second apart, and prints a summary with the rates
between. With --watch it prints one again and again, until it is interrupted. For a node of a
cluster it also prints the role, the sequencer, the position in the log, and what is known of the
other nodes. It needs the token of an operator; the role read is enough.`,
		Example: `  rueda status --token-file /etc/rueda/ana.token
  rueda status --token-file ana.token --watch --every 5s
  rueda status --token-file ana.token --output json
  rueda status --admin https://10.0.0.5:8081 --token-file ana.token \
    --ca ca.pem --certificate ana.crt --key ana.key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.every < 100*time.Millisecond:
				return command.Fail(command.ExitUsage, errors.New("--every must be at least 100ms"), "")
			case o.output != "table" && o.output != "json":
				return command.Fail(command.ExitUsage, fmt.Errorf("--output %q is not table or json", o.output), "")
			}
			if err := s.open("read"); err != nil {
				return err
			}
			return o.run(cmd.Context(), std, &s)
		},
	}
	s.flags(cmd)
	cmd.Flags().BoolVar(&o.watch, "watch", false, "print the status again and again")
	cmd.Flags().DurationVar(&o.every, "every", time.Second, "time between two reads")
	cmd.Flags().StringVarP(&o.output, "output", "o", "table", "table or json, one line each time")
	return cmd
}

// run prints the status once, or until ctx ends. While it watches, a gateway that does not answer
// is reported and read again.
func (o *statusOptions) run(ctx context.Context, std command.Streams, s *source) error {
	before, err := s.page(ctx)
	if err != nil {
		return err
	}
	warnVersion(std.Err, before)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(o.every):
		}
		now, err := s.page(ctx)
		var node *adminapi.Cluster
		if err == nil {
			node, err = s.cluster(ctx, now)
		}
		switch {
		case err != nil && (!o.watch || ctx.Err() != nil):
			return err
		case err != nil:
			fmt.Fprintf(std.Err, "%s %s\n", time.Now().Format(time.TimeOnly), command.Printable(err.Error()))
			continue
		}
		st := newStatus(now, before)
		st.Cluster = node
		if err := o.print(std.Out, st, now.at); err != nil || !o.watch {
			return err
		}
		before = now
	}
}

// print prints one status.
func (o *statusOptions) print(out io.Writer, st *status, at time.Time) error {
	if o.output == "json" {
		text, err := json.Marshal(st)
		if err != nil {
			return notGateway() // a value is not a number
		}
		_, err = fmt.Fprintf(out, "%s\n", command.EscapeControls(text))
		return err
	}
	if o.watch {
		fmt.Fprintf(out, "\n%s ", at.Format(time.TimeOnly))
	}
	return command.WriteText(out, st.text())
}

// cluster returns the state of the gateway as a node of a cluster; nil if it is none, or of a
// version whose state cannot be read.
func (s *source) cluster(ctx context.Context, p *page) (*adminapi.Cluster, error) {
	if len(p.all("rueda_cluster_connected")) == 0 {
		return nil, nil
	}
	const path = "/admin/cluster"
	code, text, _, err := s.exchange(ctx, http.MethodGet, path, "")
	if err != nil || code == http.StatusNotFound {
		return nil, err
	}
	if err := refusal(http.MethodGet+" "+path, code, text); err != nil {
		return nil, err
	}
	var answer struct{ Data *adminapi.Cluster }
	if json.Unmarshal(text, &answer) != nil || answer.Data == nil {
		return nil, notGateway()
	}
	return answer.Data, nil
}

// warnVersion reports that the gateway has another version than this program.
func warnVersion(w io.Writer, p *page) {
	if own := command.ReadBuild().Version; p.version() != own {
		fmt.Fprintf(w, "rueda: the gateway is version %s and this program is %s: some figures may be missing\n", command.Printable(p.version()), own)
	}
}
