package tune

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// file is a knob of /proc/sys or /sys.
type file string

func (f file) read() (string, error) {
	data, err := os.ReadFile(string(f))
	if err != nil {
		return "", reason(err)
	}
	return strings.TrimRight(string(data), "\n"), nil
}

func (f file) write(value string) error {
	w, err := os.OpenFile(string(f), os.O_WRONLY, 0)
	if err != nil {
		return reason(err)
	}
	_, err = w.WriteString(value)
	return reason(errors.Join(err, w.Close()))
}

func sysctl(name string) file {
	return file(filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/")))
}

// reason is an error without the path, which the setting's name tells.
func reason(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.EOPNOTSUPP):
		return errAbsent
	case errors.Is(err, fs.ErrPermission):
		return ErrPermission
	}
	var e syscall.Errno
	if errors.As(err, &e) {
		return e
	}
	return err
}

// Commands of ethtool(8), from linux/ethtool.h.
const (
	getRing, setRing = 0x10, 0x11
)

// offload is a knob of an interface: "on" or "off".
type offload struct {
	name     string // of the interface
	get, set uint32
}

// offloads that are wanted on.
var offloads = []struct {
	name, why string
	get, set  uint32
}{
	{"rx-checksum", "checksums of what arrives are the NIC's work", 0x14, 0x15},
	{"tx-checksum", "checksums of what leaves are the NIC's work, and TSO and GSO need it", 0x16, 0x17},
	{"sg", "packets leave from several pieces of memory, and TSO and GSO need it", 0x18, 0x19},
	{"tso", "the NIC cuts TCP's 64 KiB into packets", 0x1e, 0x1f},
	{"gso", "UDP and TCP pass the stack in pieces of 64 KiB; 2.7 times as many bytes per CPU with QUIC", 0x23, 0x24},
	{"gro", "what arrives passes the stack in pieces of 64 KiB", 0x2b, 0x2c},
}

func (o offload) read() (string, error) {
	value := struct{ command, data uint32 }{command: o.get}
	if err := ethtool(o.name, unsafe.Pointer(&value)); err != nil {
		return "", err
	}
	if value.data != 0 {
		return "on", nil
	}
	return "off", nil
}

func (o offload) write(value string) error {
	v := struct{ command, data uint32 }{command: o.set}
	if value == "on" {
		v.data = 1
	}
	return ethtool(o.name, unsafe.Pointer(&v))
}

// ringParameters is struct ethtool_ringparam.
type ringParameters struct {
	command                                          uint32
	rxMax, rxMiniMax, rxJumboMax, txMax              uint32
	rxPending, rxMiniPending, rxJumboPending, txPend uint32
}

// ring is the knob of one of an interface's descriptor rings.
type ring struct {
	name string // of the interface
	tx   bool
}

func (r ring) parameters() (p ringParameters, err error) {
	p.command = getRing
	return p, ethtool(r.name, unsafe.Pointer(&p))
}

func (r ring) read() (string, error) {
	p, err := r.parameters()
	if err != nil {
		return "", err
	}
	if r.tx {
		return strconv.FormatUint(uint64(p.txPend), 10), nil
	}
	return strconv.FormatUint(uint64(p.rxPending), 10), nil
}

func (r ring) write(value string) error {
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil {
		return err
	}
	p, err := r.parameters()
	if err != nil {
		return err
	}
	if r.tx {
		p.txPend = uint32(n)
	} else {
		p.rxPending = uint32(n)
	}
	p.command = setRing
	return ethtool(r.name, unsafe.Pointer(&p))
}

// largest a ring can be.
func (r ring) largest() uint64 {
	p, err := r.parameters()
	switch {
	case err != nil:
		return 0
	case r.tx:
		return uint64(p.txMax)
	}
	return uint64(p.rxMax)
}

// ethtool asks an interface's driver. The kernel refuses to set without
// CAP_NET_ADMIN.
func ethtool(name string, data unsafe.Pointer) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("ethtool %s: %w", name, err)
	}
	defer func() { _ = unix.Close(fd) }()
	var request struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [24 - strconv.IntSize/8]byte // struct ifreq has 24 bytes behind the name
	}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	request.data = data
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); e != 0 {
		return reason(e)
	}
	return nil
}
