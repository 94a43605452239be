package bench

import "context"

// GatewayRole is the role of a child that is the gateway itself.
const GatewayRole = "gateway"

// Gateway is the gateway in a process of its own.
type Gateway struct {
	*Child
	// Addrs are the addresses that its listeners have bound, by name.
	Addrs map[string]string
}

// Gateway runs the gateway by a configuration (YAML), on one CPU alone if cpu
// is not negative. Listeners may ask for port 0.
func (s *Session) Gateway(ctx context.Context, cpu int, config string) (*Gateway, error) {
	c, err := s.SpawnOn(cpu, GatewayRole, config)
	if err != nil {
		return nil, err
	}
	g := &Gateway{Child: c}
	return g, c.Call(ctx, "addrs", nil, &g.Addrs)
}
