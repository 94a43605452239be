package config

// RouteOrder is the rule of CompareRules in words, for people.
const RouteOrder = `Of the routes that match a request the most specific wins:
  1. an exact host, then the longer *.wildcard, then no host;
  2. an exact path, then the longer prefix, then no path;
  3. more conditions: listener, peer, rpc_method and method count one each, and so does each header;
  4. at the same number, one with a listener, then with a peer, then with an rpc_method, then with a method;
  5. more headers with a value of their own, not *.
The order in the file plays no part. Two routes that are equal by this and can both match one request are an error.`

// Verdict is what a rule says of a request.
type Verdict struct {
	Rule Rule
	// Matches is whether the rule is for the request.
	Matches bool
	// Why is the first condition that does not hold; empty where Matches.
	Why string
}

// Explain gives the verdict of every rule on q, in the order in which rules
// win, and the index of the one that does; -1 where none matches.
func (t *Tree) Explain(q Request) (verdicts []Verdict, winner int) {
	q.Host = normalHost(q.Host)
	winner = -1
	for i, r := range t.Rules() {
		ok, why := r.Matches(&q)
		verdicts = append(verdicts, Verdict{Rule: r, Matches: ok, Why: why})
		if ok && winner < 0 {
			winner = i
		}
	}
	return verdicts, winner
}

// Action says in a few words what the route does.
func (r *Route) Action() string {
	switch {
	case r.Redirect != nil:
		return "redirect to " + r.Redirect.To
	case r.Respond != nil:
		return "respond"
	}
	return "to " + r.To
}
