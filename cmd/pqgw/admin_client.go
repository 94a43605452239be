package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/telemetry"
)

func init() { commands = append(commands, newStatus, newReload, newDrain) }

// maxAdminAnswer bounds what is read of an answer: the status of 10,000
// endpoints is some 3 MB.
const maxAdminAnswer = 64 << 20

// adminClient is what the commands share that talk to a running gateway.
type adminClient struct {
	admin, file, output string
	timeout             time.Duration
}

func (c *adminClient) flags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&c.admin, "admin", "", "admin address of the running gateway, unix:/path or host:port (default: that of -c, else "+telemetry.DefaultAdminAddress+")")
	fl.StringVarP(&c.file, "config", "c", "", "configuration file to take admin.address from")
	fl.DurationVar(&c.timeout, "timeout", 30*time.Second, "bound on the call")
	outputFlag(cmd, &c.output)
}

func newStatus() *cobra.Command {
	var c adminClient
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of a running gateway: groups in force, listeners, upstreams, certificates",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var status telemetry.Status
			body, err := c.call(cmd, http.MethodGet, "/status", &status)
			if err != nil {
				return err
			}
			return c.print(cmd, body, func(w io.Writer) error { return printStatus(w, &status, time.Now()) })
		},
	}
	c.flags(cmd)
	cmd.AddCommand(newStatusPQ())
	return cmd
}

func newReload() *cobra.Command {
	var c adminClient
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make a running gateway read its configuration again",
		Long: "Makes a running gateway read its configuration again. When the new one is bad the old one stays in force,\n" +
			"the problems are printed and the exit code is 3.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.reload(cmd) },
	}
	c.flags(cmd)
	return cmd
}

func (c *adminClient) reload(cmd *cobra.Command) error {
	var answer telemetry.ReloadAnswer
	body, err := c.call(cmd, http.MethodPost, "/reload", &answer)
	if err != nil {
		return err
	}
	err = c.print(cmd, body, func(w io.Writer) error {
		if !answer.Reloaded {
			return nil // the error says it
		}
		_, err := fmt.Fprintf(w, "reloaded: configuration version %d, hash %s\n", answer.Configuration.Version, shortHash(answer.Configuration.Hash))
		return err
	})
	if err == nil && !answer.Reloaded {
		err = withCode(exitConfig, fmt.Errorf("the new configuration was refused, version %d stays in force:\n%s", answer.Configuration.Version, answer.Error))
	}
	return err
}

func newDrain() *cobra.Command {
	var c adminClient
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Make a running gateway finish what runs and exit",
		Long: "Makes a running gateway say that it is not ready, stop accepting, finish what runs until drain.timeout, and\n" +
			"exit. Returns as soon as that has begun.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var answer telemetry.DrainAnswer
			body, err := c.call(cmd, http.MethodPost, "/drain", &answer)
			if err != nil {
				return err
			}
			return c.print(cmd, body, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, "draining: the gateway exits when what runs has finished")
				return err
			})
		},
	}
	c.flags(cmd)
	return cmd
}

// print writes the answer as it came or as text.
func (c *adminClient) print(cmd *cobra.Command, body []byte, text func(io.Writer) error) error {
	if c.output == "json" {
		_, err := cmd.OutOrStdout().Write(body)
		return err
	}
	return text(cmd.OutOrStdout())
}

// address is where the running gateway's admin pages are.
func (c *adminClient) address() (config.Address, error) {
	if c.admin != "" {
		a, err := config.ParseAddress(c.admin)
		return a, withCode(exitUsage, wrap("--admin", err))
	}
	if c.file == "" {
		return config.ParseAddress(telemetry.DefaultAdminAddress)
	}
	tree, _, err := config.Load(c.file)
	var problems *config.Problems
	if errors.As(err, &problems) {
		return config.Address{}, withCode(exitConfig, fmt.Errorf("%w\nwith --admin ADDR the file is not needed", err))
	}
	if err != nil {
		return config.Address{}, err
	}
	if tree.Admin == nil {
		return config.Address{}, withCode(exitConfig, fmt.Errorf("%s has no admin.address: the gateway that runs by it cannot be asked", c.file))
	}
	return tree.Admin.Address, nil
}

// wrap says where an error comes from; nil stays nil.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// call asks the gateway and reads the answer's JSON into v, also that of a
// refusal; it returns the JSON itself.
func (c *adminClient) call(cmd *cobra.Command, method, path string, v any) ([]byte, error) {
	if err := checkOutput(c.output); err != nil {
		return nil, err
	}
	address, err := c.address()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), c.timeout)
	defer cancel()
	status, body, err := send(ctx, address, method, path)
	if err != nil {
		return nil, unreachable(address, err)
	}
	if !json.Valid(body) {
		return nil, fmt.Errorf("%s answers %s %s with %s: %s; is it the admin address of a pqgw?", address, method, path, status, bytes.TrimSpace(body[:min(len(body), 200)]))
	}
	if err := json.Unmarshal(body, v); err != nil {
		return nil, fmt.Errorf("reading the answer of %s: %w", address, err)
	}
	return body, nil
}

// send makes one call on a connection of its own and reads the answer whole.
func send(ctx context.Context, address config.Address, method, path string) (status string, body []byte, err error) {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, address.Network, address.Addr)
		},
	}}
	host := "pqgw" // a socket has no name
	if !address.IsUnix() {
		host = address.Addr
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+host+path, nil)
	if err != nil {
		return "", nil, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return "", nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAdminAnswer))
	return resp.Status, body, err
}

// unreachable says what to check when the gateway was not reached.
func unreachable(address config.Address, err error) error {
	err = fmt.Errorf("asking the gateway at %s: %w", address, err)
	switch {
	case errors.Is(err, os.ErrPermission):
		return withCode(exitBind, fmt.Errorf("%w; only the user that the gateway runs as may ask it", err))
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; no gateway runs with this admin address; see --admin and -c", err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w; it took longer than --timeout", err)
	}
	return fmt.Errorf("%w; is it running? see --admin and -c", err)
}
