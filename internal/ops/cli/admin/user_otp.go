package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// otp returns the command user otp.
func (o *userOptions) otp(std command.Streams) *cobra.Command {
	var enable, disable bool
	var issuer string
	var cmd *cobra.Command
	cmd = o.command(std, "otp NAME", "Turn a user's one-time passwords on or off", command.ExactArgs("name of the user"),
		func(ctx context.Context, std command.Streams, users userBase, args []string) error {
			if enable == disable {
				return command.Fail(command.ExitUsage, errors.New("--enable or --disable is missing"), "Use one of them.")
			}
			switch o.kind {
			case "":
			case "http":
				return command.Fail(command.ExitUsage, errors.New("the login service manages the one-time passwords of users of type http"), "")
			default:
				return command.Fail(command.ExitUsage, fmt.Errorf("users of type %s have no one-time passwords here", o.kind), "")
			}
			if enable {
				if issuer == "" || strings.Contains(issuer, ":") {
					return command.Fail(command.ExitUsage, fmt.Errorf("--issuer %q is empty or has a colon", issuer), "")
				}
				if !cmd.Flags().Changed("issuer") {
					issuer = "" // that of the configuration
				}
				return enableOTP(ctx, std, users, args[0], issuer)
			}
			was, err := users.DisableSecondFactor(ctx, args[0])
			if err != nil {
				return err
			}
			return doneOr(std, was, args[0]+" had no second factor.", "%s logs in with only the password", args[0])
		})
	cmd.Long = `Otp --enable creates a secret for an authenticator app and ten recovery codes, and prints
them once: the database has the encrypted secret and hashes of the codes. From then on
logins of the user need an otp: six digits from the app, or a recovery code. Each can be
used once. Earlier logins of the user end, because they were made without one.

To change the secret, use --disable and then --enable. Test it before the user needs it:
rueda user check NAME --otp CODE.`
	cmd.Example = otpExample
	f := cmd.Flags()
	f.BoolVar(&enable, "enable", false, "turn one-time passwords on")
	f.BoolVar(&disable, "disable", false, "turn one-time passwords off")
	f.StringVar(&issuer, "issuer", "Rueda", "name of the gateway in the user's app, if the configuration has no otp_issuer")
	return cmd
}

func enableOTP(ctx context.Context, std command.Streams, users userBase, name, issuer string) error {
	base, err := inDatabase(users, "create one-time passwords")
	if err != nil {
		return err
	}
	f, err := base.EnableSecondFactor(ctx, name, issuer)
	if errors.Is(err, local.ErrExists) {
		return command.Fail(command.ExitError, err, "Turn it off first: rueda user otp "+command.QuoteShell(name)+" --disable")
	}
	if err != nil {
		return err
	}
	if err := done(std, "secret\t%s\nurl\t%s", f.Secret, f.URL); err != nil {
		return err
	}
	for _, code := range f.Codes {
		if err := done(std, "recovery\t%s", code); err != nil {
			return err
		}
	}
	fmt.Fprintf(std.Err, "%s needs a one-time password to log in from now on. This is shown once.\n", name)
	return nil
}
