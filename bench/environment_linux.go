package bench

import (
	"bytes"
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sysctls that change what the network does.
var sysctls = []string{
	"net/core/default_qdisc", "net/core/rmem_max", "net/core/wmem_max", "net/core/somaxconn",
	"net/core/netdev_max_backlog", "net/ipv4/tcp_congestion_control", "net/ipv4/tcp_rmem",
	"net/ipv4/tcp_wmem", "net/ipv4/ip_local_port_range", "net/ipv4/udp_mem",
}

func readSystem(e *Environment) {
	e.CPU, e.Virtual = cpuModel()
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		e.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		e.Memory = uint64(info.Totalram) * uint64(info.Unit)
	}
	if g := readLine("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"); g != "" {
		e.Governor = g
	} else if e.Virtual {
		e.Governor = "the hypervisor's"
	}
	e.Sysctl = make(map[string]string)
	for _, name := range sysctls {
		if v := readLine("/proc/sys/" + name); v != "" {
			e.Sysctl[strings.ReplaceAll(name, "/", ".")] = strings.Join(strings.Fields(v), " ")
		}
	}
	e.Interfaces = Interfaces()
}

func readLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func cpuModel() (model string, virtual bool) {
	model = "unknown"
	for line := range strings.Lines(readLine("/proc/cpuinfo")) {
		key, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(key) {
		case "model name":
			model = strings.TrimSpace(value)
		case "flags":
			virtual = strings.Contains(value, " hypervisor")
		}
	}
	return model, virtual
}

// Interfaces are those that are up, of the network namespace that the calling thread
// is in.
func Interfaces() []Interface {
	all, err := net.Interfaces()
	if err != nil {
		return nil
	}
	links := linkAttributes()
	var out []Interface
	for _, i := range all {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		dir := filepath.Join("/sys/class/net", i.Name)
		driver, _ := os.Readlink(filepath.Join(dir, "device/driver"))
		if driver != "" {
			driver = filepath.Base(driver)
		}
		link := links[i.Index]
		if rx, _ := filepath.Glob(filepath.Join(dir, "queues/rx-*")); len(rx) > 0 { // those in use, of this machine's own
			link.rx = len(rx)
		}
		if tx, _ := filepath.Glob(filepath.Join(dir, "queues/tx-*")); len(tx) > 0 {
			link.tx = len(tx)
		}
		out = append(out, Interface{
			Name: i.Name, MTU: i.MTU, Driver: driver, RxQueues: link.rx, TxQueues: link.tx,
			Qdisc: link.qdisc, Offloads: offloads(i.Name),
		})
	}
	return out
}

// attributes are what rtnetlink tells of an interface.
type attributes struct {
	qdisc  string
	rx, tx int // queues that it was made with
}

// linkAttributes are those of each interface by its index.
func linkAttributes() map[int]attributes {
	out := make(map[int]attributes)
	data, err := syscall.NetlinkRIB(syscall.RTM_GETLINK, syscall.AF_UNSPEC)
	if err != nil {
		return out
	}
	messages, err := syscall.ParseNetlinkMessage(data)
	if err != nil {
		return out
	}
	for i := range messages {
		if messages[i].Header.Type != syscall.RTM_NEWLINK || len(messages[i].Data) < syscall.SizeofIfInfomsg {
			continue
		}
		index := (*syscall.IfInfomsg)(unsafe.Pointer(&messages[i].Data[0])).Index
		list, err := syscall.ParseNetlinkRouteAttr(&messages[i])
		if err != nil {
			continue
		}
		var link attributes
		for _, a := range list {
			switch {
			case a.Attr.Type == unix.IFLA_QDISC:
				link.qdisc = string(bytes.TrimRight(a.Value, "\x00"))
			case a.Attr.Type == unix.IFLA_NUM_RX_QUEUES && len(a.Value) == 4:
				link.rx = int(binary.NativeEndian.Uint32(a.Value))
			case a.Attr.Type == unix.IFLA_NUM_TX_QUEUES && len(a.Value) == 4:
				link.tx = int(binary.NativeEndian.Uint32(a.Value))
			}
		}
		out[int(index)] = link
	}
	return out
}

// The questions of ethtool(8) that are answered with one word, from
// linux/ethtool.h.
var ethtoolWords = map[string]uint32{"rx-checksum": 0x14, "tx-checksum": 0x16, "tso": 0x1e, "gso": 0x23, "gro": 0x2b}

// offloads are the interface's; nil where it cannot be asked.
func offloads(name string) map[string]bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	var out map[string]bool
	for feature, command := range ethtoolWords {
		ask := struct{ command, answer uint32 }{command: command}
		var request struct {
			name [unix.IFNAMSIZ]byte
			data unsafe.Pointer
			_    [24 - strconv.IntSize/8]byte // struct ifreq has 24 bytes behind the name
		}
		copy(request.name[:unix.IFNAMSIZ-1], name)
		request.data = unsafe.Pointer(&ask)
		_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
		if e != 0 {
			continue
		}
		if out == nil {
			out = make(map[string]bool)
		}
		out[feature] = ask.answer != 0
	}
	return out
}
