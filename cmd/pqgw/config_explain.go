package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/gateway/router"
)

// explainFlags are the flags of `config explain`.
type explainFlags struct {
	host, path, method, listener string
	headers, peers               []string
	rpcMethod                    int64
	output                       string
}

func newConfigExplain() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain [-c] FILE",
		Short: "Show the listeners with their groups and the routes in their order, or which one gets a request",
		Long: "Shows what a configuration file amounts to: the key exchange groups in force on each listener, and the\n" +
			"routes in the order in which they win. With --host, --path or another part of a request it shows which\n" +
			"route gets that request, and why the others do not.\n\n" + config.RouteOrder,
		Example: "  pqgw config explain -c pqgw.yaml --host api.example.com --path /v1/models --method GET",
	}
	file := configFile(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.host, "host", "", "host that the request asks for")
	fl.StringVar(&f.path, "path", "/", "path of the request")
	fl.StringVar(&f.method, "method", "GET", "method of the request")
	fl.StringVar(&f.listener, "listener", "", "listener at which it arrives, instead of each in turn")
	fl.StringArrayVarP(&f.headers, "header", "H", nil, "header field of the request, as 'Name: value'")
	fl.StringArrayVar(&f.peers, "peer", nil, "verified name of the client")
	fl.Int64Var(&f.rpcMethod, "rpc-method", -1, "method number of a ZAP call")
	outputFlag(cmd, &f.output)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(f.output); err != nil {
			return err
		}
		path, err := file(args)
		if err != nil {
			return err
		}
		tree, err := loadConfig(path, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		e, err := f.explain(tree, f.asked(cmd))
		if err != nil {
			return err
		}
		if f.output == "json" {
			return printJSON(cmd.OutOrStdout(), e)
		}
		return e.print(cmd.OutOrStdout())
	}
	return cmd
}

// asked reports whether a part of a request was given.
func (f *explainFlags) asked(cmd *cobra.Command) bool {
	for _, name := range []string{"host", "path", "method", "listener", "header", "peer", "rpc-method"} {
		if cmd.Flags().Changed(name) {
			return true
		}
	}
	return false
}

// request is the request that the flags describe.
func (f *explainFlags) request() (config.Request, error) {
	q := config.Request{Host: f.host, Method: f.method, Peers: f.peers}
	q.Path, _, _ = strings.Cut(f.path, "?")
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return q, withCode(exitUsage, fmt.Errorf("--header %q is not 'Name: value'", h))
		}
		q.Header = append(q.Header, config.Field{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)})
	}
	if f.rpcMethod >= 0 {
		if f.rpcMethod > 1<<32-1 {
			return q, withCode(exitUsage, fmt.Errorf("--rpc-method %d is more than 32 bits", f.rpcMethod))
		}
		n := uint32(f.rpcMethod)
		q.RPCMethod = &n
	}
	return q, nil
}

// explanation is what `config explain` prints.
type explanation struct {
	Listeners []listenerFacts `json:"listeners"`
	Routes    []routeFacts    `json:"routes"`
	Requests  []outcome       `json:"requests,omitempty"`
}

// listenerFacts is what a listener amounts to.
type listenerFacts struct {
	Name       string            `json:"name"`
	Address    string            `json:"address"`
	Protocols  []config.Protocol `json:"protocols"`
	TLS        string            `json:"tls,omitempty"`
	PQ         config.PQ         `json:"pq,omitempty"`
	MinVersion config.TLSVersion `json:"min_version,omitempty"`
	Groups     []config.Group    `json:"groups,omitempty"`
	Calls      *callLimits       `json:"calls,omitempty"`
}

// routeFacts is a route under one of its hosts, in the order in which they win.
type routeFacts struct {
	Rank       int           `json:"rank"`
	Index      int           `json:"index"`
	Name       string        `json:"name"`
	Host       string        `json:"host,omitempty"`
	Path       string        `json:"path,omitempty"`
	Conditions string        `json:"conditions,omitempty"`
	Action     string        `json:"action"`
	Calls      *callTimeouts `json:"calls,omitempty"`
}

// outcome is what becomes of the request at one listener.
type outcome struct {
	Listener string `json:"listener"`
	// Winner is the rank of the route that gets the request; 0 where none does.
	Winner int `json:"winner"`
	// RedirectHTTPS is set where the listener asks no route.
	RedirectHTTPS bool `json:"redirect_https,omitempty"`
	// Refused says why no route gets the request although one matches: see the gateway's answers of 400.
	Refused  string    `json:"refused,omitempty"`
	Verdicts []verdict `json:"routes"`
}

type verdict struct {
	Rank    int    `json:"rank"`
	Matches bool   `json:"matches"`
	Why     string `json:"not,omitempty"`
}

func (f *explainFlags) explain(t *config.Tree, asked bool) (*explanation, error) {
	e := &explanation{Listeners: []listenerFacts{}, Routes: []routeFacts{}}
	for _, l := range t.Listeners {
		e.Listeners = append(e.Listeners, factsOf(t, l))
	}
	for i, r := range t.Rules() {
		e.Routes = append(e.Routes, routeFacts{
			Rank: i + 1, Index: r.Index, Name: r.Route.Name, Host: r.Host, Path: r.Route.Match.Path,
			Conditions: conditions(&r.Route.Match), Action: r.Route.Action(), Calls: callTimeoutsOf(t, r.Route),
		})
	}
	if !asked {
		return e, nil
	}
	q, err := f.request()
	if err != nil {
		return nil, err
	}
	for _, l := range t.Listeners {
		if f.listener == "" || f.listener == l.Name {
			q.Listener = l.Name
			o := outcome{Listener: l.Name, RedirectHTTPS: l.RedirectHTTPS}
			if !l.RedirectHTTPS {
				o = outcomeOf(t, q)
			}
			e.Requests = append(e.Requests, o)
		}
	}
	if len(e.Requests) == 0 {
		return nil, withCode(exitUsage, fmt.Errorf("--listener: no listener is named %q", f.listener))
	}
	return e, nil
}

func outcomeOf(t *config.Tree, q config.Request) outcome {
	verdicts, winner := t.Explain(q)
	o := outcome{Listener: q.Listener, Winner: winner + 1}
	for i, v := range verdicts {
		o.Verdicts = append(o.Verdicts, verdict{Rank: i + 1, Matches: v.Matches, Why: v.Why})
	}
	resolved := string(router.AppendResolved(nil, []byte(q.Path)))
	if router.HasDotSegment([]byte(resolved)) {
		o.Refused = "the path has a segment '.' or '..'"
	} else if resolved != q.Path && winner >= 0 && router.Plain([]byte(t.Rules()[winner].Route.Match.Path)) {
		q.Path = resolved
		if _, other := t.Explain(q); other < 0 || t.Rules()[other].Index != t.Rules()[winner].Index {
			o.Refused = "to some upstreams the path is " + resolved + ", which is another route's"
		}
	}
	return o
}

// sameAs tells whether the same becomes of the request at both listeners.
func (o *outcome) sameAs(other *outcome) bool {
	return o.Winner == other.Winner && o.RedirectHTTPS == other.RedirectHTTPS && o.Refused == other.Refused &&
		slices.Equal(o.Verdicts, other.Verdicts)
}

func factsOf(t *config.Tree, l *config.Listener) listenerFacts {
	facts := listenerFacts{Name: l.Name, Address: l.Address.String(), Protocols: l.Protocols, TLS: l.TLS, Calls: callLimitsOf(t, l)}
	if s := t.TLSFor(l); s != nil {
		facts.PQ, facts.MinVersion, facts.Groups = s.PQ, s.MinVersion, s.EffectiveGroups()
	}
	return facts
}

// conditions are those beside host and path, as in the file.
func conditions(m *config.Match) string {
	var parts []string
	add := func(key string, values []string) {
		if len(values) > 0 {
			parts = append(parts, key+" "+strings.Join(values, "|"))
		}
	}
	add("listener", m.Listener)
	add("peer", m.Peer)
	if m.RPCMethod != nil {
		parts = append(parts, "rpc_method "+strconv.FormatUint(uint64(*m.RPCMethod), 10))
	}
	add("method", m.Method)
	for _, h := range m.Header {
		parts = append(parts, "header "+h.Name+": "+h.Value)
	}
	return strings.Join(parts, ", ")
}

func (e *explanation) print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "LISTENER\tADDRESS\tPROTOCOLS\tTLS\tPQ\tGROUPS")
	for _, l := range e.Listeners {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Name, l.Address, joinWords(l.Protocols), orDash(l.TLS), orDash(string(l.PQ)), orDash(joinWords(l.Groups)))
	}
	for _, l := range e.Listeners {
		if l.Calls != nil {
			fmt.Fprintf(table, "\n%s: %s.\n", l.Name, l.Calls)
		}
	}
	if len(e.Requests) == 0 {
		e.printRoutes(table)
	}
	for left := e.Requests; len(left) > 0; {
		o, names := left[0], []string{}
		var others []outcome
		for i := range left {
			if left[i].sameAs(&o) {
				names = append(names, left[i].Listener)
			} else {
				others = append(others, left[i])
			}
		}
		o.Listener = strings.Join(names, ", ")
		e.printOutcome(table, &o)
		left = others
	}
	return table.Flush()
}

func (e *explanation) printRoutes(w io.Writer) {
	fmt.Fprintln(w, "\nRANK\tHOST\tPATH\tCONDITIONS\tACTION\tNAME")
	for _, r := range e.Routes {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", r.Rank, orAny(r.Host), orAny(r.Path), orDash(r.Conditions), r.Action, r.Name)
	}
	fmt.Fprintln(w, "\n"+config.RouteOrder)
}

func (e *explanation) printOutcome(w io.Writer, o *outcome) {
	if o.RedirectHTTPS {
		fmt.Fprintf(w, "\nAt %s every request is led to https: 308.\n", o.Listener)
		return
	}
	switch {
	case o.Refused != "":
		fmt.Fprintf(w, "\nAt %s it is refused: 400, %s.\n", o.Listener, o.Refused)
	case o.Winner == 0:
		fmt.Fprintf(w, "\nAt %s no route matches: 404.\n", o.Listener)
	default:
		r := e.Routes[o.Winner-1]
		fmt.Fprintf(w, "\nAt %s the route %s gets it: %s.\n", o.Listener, r.Name, r.Action)
		if r.Calls != nil {
			fmt.Fprintf(w, "Of a call %s.\n", r.Calls)
		}
	}
	fmt.Fprintln(w, "RANK\tHOST\tPATH\tCONDITIONS\tACTION\tVERDICT")
	for i, v := range o.Verdicts {
		r := e.Routes[i]
		says := "no: " + v.Why
		if v.Matches {
			says = "matches, but " + strconv.Itoa(o.Winner) + " is more specific"
		}
		if v.Rank == o.Winner {
			says = "wins"
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", r.Rank, orAny(r.Host), orAny(r.Path), orDash(r.Conditions), r.Action, says)
	}
}

func joinWords[T ~string](list []T) string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = string(w)
	}
	return strings.Join(out, " ")
}

func orAny(s string) string {
	if s == "" {
		return "any"
	}
	return s
}
