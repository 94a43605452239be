package tune

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// What is wanted, for 2.5 Gbit/s and round trips to 100 ms: 31 MB are then on
// the way.
const (
	window     = 32 << 20 // bytes, most of a TCP socket's buffer
	udpBuffer  = 16 << 20 // bytes; quic-go asks for 7 MiB and warns below
	ringSize   = 4096     // descriptors: 20 ms of full packets
	backlog    = 8192     // packets: 40 ms
	budget     = 600      // packets a CPU takes in one turn
	flows      = 32768    // entries of the RFS table
	acceptQ    = 16384    // connections that wait for accept
	synBacklog = 16384    // connections in the middle of TCP's handshake
	lowPort    = 10240    // first of the ports for connections of our own
	highPort   = 65535
)

// sysctls in the order of a plan. A machine's is shared by all namespaces.
var sysctls = []struct {
	name    string
	machine bool
	better  func(string) (string, error)
	why     string
}{
	{"net.core.netdev_max_backlog", true, atLeast(backlog), "packets that RPS hands to another CPU wait here; at 207,000 a second 1000 are 5 ms"},
	{"net.core.netdev_budget", true, atLeast(budget), "packets taken in one turn of the receive interrupt, before others run"},
	{"net.core.netdev_budget_usecs", true, atLeast(8000), "time of one such turn, in µs"},
	{"net.core.rps_sock_flow_entries", true, atLeast(flows), "RFS: packets go to the CPU on which their connection is read"},
	{"net.core.rmem_max", true, atLeast(udpBuffer), "QUIC's receive buffer: it asks for 7 MiB, and without them bursts are lost"},
	{"net.core.wmem_max", true, atLeast(udpBuffer), "QUIC's send buffer"},
	{"net.ipv4.udp_rmem_min", false, atLeast(16384), "what a UDP socket may hold although memory is short"},
	{"net.ipv4.udp_wmem_min", false, atLeast(16384), "what a UDP socket may send although memory is short"},
	{"net.ipv4.tcp_rmem", false, atLeast(0, 0, window), "2.5 Gbit/s times 100 ms are 31 MB on the way to us"},
	{"net.ipv4.tcp_wmem", false, atLeast(0, 0, window), "2.5 Gbit/s times 100 ms are 31 MB not yet acknowledged"},
	{"net.core.somaxconn", false, atLeast(acceptQ), "connections that wait for accept while handshakes keep the CPUs busy"},
	{"net.ipv4.tcp_max_syn_backlog", false, atLeast(synBacklog), "connections in the middle of TCP's handshake"},
	{"net.ipv4.ip_local_port_range", false, widest(lowPort, highPort), "ports for connections to upstreams, and for a load generator's"},
}

// Plan is what would be done.
type Plan struct {
	// Namespaced is set in a network namespace that is not the machine's first.
	Namespaced bool       `json:"namespaced"`
	NICs       []string   `json:"nics"`
	Settings   []*Setting `json:"settings"`
}

// Make looks at the host. nic is the interface to set up; empty means those of
// the default routes, or where there are none all that are up.
func Make(nic string) (*Plan, error) {
	p := &Plan{Namespaced: namespaced()}
	var err error
	if p.NICs, err = interfaces(nic); err != nil {
		return nil, err
	}
	p.governors()
	for _, s := range sysctls {
		if s.machine && p.Namespaced {
			p.add(notOurs(s.name, s.why))
			continue
		}
		p.add(propose(s.name, s.why, sysctl(s.name), s.better))
	}
	for _, name := range p.NICs {
		p.nic(name)
	}
	return p, nil
}

func (p *Plan) add(s *Setting) { p.Settings = append(p.Settings, s) }

// namespaced tells whether this is not the machine's first network namespace:
// only there the kernel has the sysctls that all share.
func namespaced() bool {
	_, err := os.Stat("/proc/sys/net/core/netdev_max_backlog")
	return err != nil
}

const governorWhy = "a CPU that has to speed up first is late for every burst"

func (p *Plan) governors() {
	if p.Namespaced {
		p.add(notOurs("governor", governorWhy))
		return
	}
	files, _ := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
	if len(files) == 0 {
		p.add(&Setting{Name: "governor", Why: governorWhy, State: Absent, Note: "this machine has none, or its hypervisor has it"})
	}
	for _, f := range files {
		cpu := filepath.Base(filepath.Dir(filepath.Dir(f)))
		p.add(propose("governor "+cpu, governorWhy, file(f), exactly("performance")))
	}
}

func (p *Plan) nic(name string) {
	for _, r := range []struct {
		kind string
		ring ring
	}{{"rx", ring{name, false}}, {"tx", ring{name, true}}} {
		p.add(propose(name+" ring "+r.kind, "a burst waits in the NIC until a CPU comes: 4096 packets are 20 ms", r.ring,
			atLeast(min(ringSize, r.ring.largest()))))
	}
	for _, o := range offloads {
		p.add(propose(name+" "+o.name, o.why, offload{name, o.get, o.set}, exactly("on")))
	}
	dir := filepath.Join("/sys/class/net", name)
	if !sameNamespace(name, dir) {
		p.add(&Setting{Name: name + " queues", Why: "RPS, RFS and XPS", State: Absent, Note: "/sys shows another namespace; run in one that has its own, as ip netns exec makes"})
		return
	}
	p.queues(name, dir)
}

func (p *Plan) queues(name, dir string) {
	receive, _ := filepath.Glob(filepath.Join(dir, "queues/rx-*"))
	send, _ := filepath.Glob(filepath.Join(dir, "queues/tx-*"))
	mask := allCPUs(runtime.NumCPU())
	for _, q := range receive {
		p.add(propose(fmt.Sprintf("%s %s rps_cpus", name, filepath.Base(q)), "RPS: all CPUs take part in what arrives on a queue, not the interrupt's alone",
			file(filepath.Join(q, "rps_cpus")), sameMask(mask)))
		p.add(propose(fmt.Sprintf("%s %s rps_flow_cnt", name, filepath.Base(q)), "RFS: this queue's part of the table of flows",
			file(filepath.Join(q, "rps_flow_cnt")), atLeast(uint64(flows/max(1, len(receive))))))
	}
	for _, q := range send {
		s := propose(fmt.Sprintf("%s %s xps_cpus", name, filepath.Base(q)), "XPS: any CPU may send on the queue",
			file(filepath.Join(q, "xps_cpus")), sameMask(mask))
		if s.State == Absent && len(send) == 1 {
			s.Note = "there is one queue, and so nothing to choose"
		}
		p.add(s)
	}
}

// sameNamespace tells whether /sys shows the interface that sockets see: it
// shows the namespace that it was mounted in.
func sameNamespace(name, dir string) bool {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return false
	}
	index, _ := file(filepath.Join(dir, "ifindex")).read()
	address, _ := file(filepath.Join(dir, "address")).read()
	all, err := net.Interfaces()
	if err != nil || index != fmt.Sprint(i.Index) || i.HardwareAddr != nil && address != i.HardwareAddr.String() {
		return false
	}
	for _, other := range all {
		if _, err := os.Stat(filepath.Join(filepath.Dir(dir), other.Name)); err != nil {
			return false
		}
	}
	return true
}

// interfaces are the one asked for, those of default routes, or all that are
// up.
func interfaces(nic string) ([]string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list the interfaces: %w", err)
	}
	var up, names []string
	for _, i := range all {
		names = append(names, i.Name)
		if i.Flags&net.FlagUp != 0 && i.Flags&net.FlagLoopback == 0 {
			up = append(up, i.Name)
		}
	}
	if nic != "" {
		if !slices.Contains(names, nic) {
			return nil, fmt.Errorf("%w: %s; there are %s", ErrNoInterface, nic, strings.Join(names, ", "))
		}
		return []string{nic}, nil
	}
	if routed := defaultRoutes(); len(routed) > 0 {
		return routed, nil
	}
	return append([]string{}, up...), nil
}

// ErrNoInterface: there is no interface of that name.
var ErrNoInterface = errors.New("no such interface")

// defaultRoutes are the interfaces of the default routes of IPv4.
func defaultRoutes() []string {
	data, err := os.ReadFile("/proc/net/route")
	if err != nil {
		return nil
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 7 && f[1] == "00000000" && f[7] == "00000000" && !slices.Contains(out, f[0]) {
			out = append(out, f[0])
		}
	}
	return out
}
