package gateway

import (
	"fmt"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/exchange"
)

// fieldOps is config.HeaderOps with the names looked up.
type fieldOps struct {
	remove, set, add []fieldOp
	host             string // replaces the authority when set
}

type fieldOp struct {
	id          exchange.Name
	name, value string
}

// framing fields are the transports': no rule writes them.
func framing(id exchange.Name) bool {
	switch id {
	case exchange.ContentLength, exchange.TransferEncoding, exchange.Connection, exchange.KeepAlive,
		exchange.ProxyConnection, exchange.Upgrade, exchange.TE, exchange.Trailer, exchange.HTTP2Settings, exchange.Expect:
		return true
	}
	return false
}

func compileOps(o *config.HeaderOps, request bool) (*fieldOps, error) {
	if o == nil || len(o.Set)+len(o.Add)+len(o.Remove) == 0 {
		return nil, nil //nolint:nilnil // no ops is a usual case
	}
	ops := &fieldOps{}
	var err error
	for _, name := range o.Remove {
		ops.remove = append(ops.remove, fieldOp{id: exchange.LookupName([]byte(name)), name: name})
	}
	if ops.set, err = compileFields(o.Set); err != nil {
		return nil, err
	}
	if ops.add, err = compileFields(o.Add); err != nil {
		return nil, err
	}
	if request {
		ops.takeHost()
	}
	return ops, nil
}

func compileFields(fields config.Fields) ([]fieldOp, error) {
	var list []fieldOp
	for _, f := range fields {
		op := fieldOp{id: exchange.LookupName([]byte(f.Name)), name: f.Name, value: f.Value}
		if framing(op.id) {
			return nil, fmt.Errorf("field %s belongs to the connection; a route cannot write it", f.Name)
		}
		if !exchange.IsToken([]byte(f.Name)) || !exchange.IsFieldValue([]byte(f.Value)) {
			return nil, fmt.Errorf("field %q: %q is not a valid header field", f.Name, f.Value)
		}
		list = append(list, op)
	}
	return list, nil
}

// takeHost lets a Host that is set be the authority that the upstream sees.
func (o *fieldOps) takeHost() {
	kept := o.set[:0]
	for _, op := range o.set {
		if op.id == exchange.Host {
			o.host = op.value
			continue
		}
		kept = append(kept, op)
	}
	o.set = kept
}

func (op *fieldOp) removeFrom(h *exchange.Head) {
	if op.id != exchange.Unknown {
		h.Remove(op.id)
	} else {
		h.RemoveString(op.name)
	}
}

// apply changes h: first remove, then set, then add.
func (o *fieldOps) apply(h *exchange.Head) {
	if o == nil {
		return
	}
	for i := range o.remove {
		o.remove[i].removeFrom(h)
	}
	for i := range o.set {
		o.set[i].removeFrom(h)
	}
	for i := range o.set {
		h.AddString(o.set[i].name, o.set[i].value)
	}
	for i := range o.add {
		h.AddString(o.add[i].name, o.add[i].value)
	}
}
