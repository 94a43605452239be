package link

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// WireCommand is the hidden subcommand of bench that is a wire; its settings
// follow.
const WireCommand = "internal-wire"

// wireSettings are a wire's: the interface has the same name at both ends.
type wireSettings struct {
	Load      string        `json:"load"` // namespaces
	Gateway   string        `json:"gateway"`
	Interface string        `json:"interface"`
	Delay     time.Duration `json:"delay"` // one way
}

// wireReady is what a wire says once both ends are there.
const wireReady = "ready"

// startWire starts a wire, which lives in the gateway's namespace until that
// is emptied, also when this process has long ended.
func startWire(ctx context.Context, w wireSettings) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("wire: %w", err)
	}
	settings, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("wire: %w", err)
	}
	cmd := exec.Command(exe, "bench", WireCommand, string(settings))
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("wire: %w", err)
	}
	if err := Enter(w.Gateway, cmd.Start); err != nil {
		return fmt.Errorf("wire: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	line, err := bufio.NewReader(out).ReadString('\n')
	if line = strings.TrimSpace(line); line == wireReady {
		return cmd.Process.Release()
	}
	_ = cmd.Process.Kill()
	return errors.Join(fmt.Errorf("wire: it says %q", line), err, cmd.Wait())
}

// Wire is the life of a wire process: it hands packets over between the two
// ends of a link, half a round trip later, until it is killed.
func Wire(settings string) error {
	var w wireSettings
	if err := json.Unmarshal([]byte(settings), &w); err != nil {
		return fmt.Errorf("wire: this command is for the link lab's own processes: %w", err)
	}
	ends := make([]int, 2)
	for i, ns := range []string{w.Load, w.Gateway} {
		err := Enter(ns, func() (err error) {
			ends[i], err = openTUN(w.Interface)
			return err
		})
		if err != nil {
			fmt.Println(err)
			return err
		}
	}
	fmt.Println(wireReady)
	failed := make(chan error, 2)
	go func() { failed <- hand(ends[1], ends[0], w.Delay) }() // both end with the process
	go func() { failed <- hand(ends[0], ends[1], w.Delay) }()
	return <-failed
}

// RunWire is a wire and exits if this process was started as one. Test
// binaries, which have no commands, call it in TestMain.
func RunWire() {
	if len(os.Args) != 4 || os.Args[1] != "bench" || os.Args[2] != WireCommand {
		return
	}
	if err := Wire(os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Flags of linux/if_tun.h that x/sys does not have.
const (
	tunCsum, tunTSO4, tunTSO6, tunTSOECN, tunUSO4, tunUSO6 = 0x01, 0x02, 0x04, 0x08, 0x20, 0x40
)

// openTUN makes a TUN interface, which is there as long as it is open. Large
// packets pass it whole (with a virtio_net_hdr before each), as they pass veth.
func openTUN(name string) (int, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("/dev/net/tun: %w (is the module tun there?)", err)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("make TUN %s: %w", name, err)
	}
	const tso = tunCsum | tunTSO4 | tunTSO6 | tunTSOECN
	if unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, tso|tunUSO4|tunUSO6) == nil {
		return fd, nil
	}
	if err := unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, tso); err != nil { // before Linux 6.2
		_ = unix.Close(fd)
		return -1, fmt.Errorf("offloads of TUN %s: %w", name, err)
	}
	return fd, nil
}

// packet is on the wire until due.
type packet struct {
	data *[]byte
	n    int
	due  time.Time
}

// Buffers of two sizes: a wire of a second would else hold 64 KiB for each
// acknowledgement.
const smallPacket, largePacket = 2 << 10, 80 << 10

var smallPackets, largePackets = packets(smallPacket), packets(largePacket)

func packets(size int) *sync.Pool {
	return &sync.Pool{New: func() any { b := make([]byte, size); return &b }}
}

// onWire bounds the packets under way in one direction.
const onWire = 1 << 16

// hand passes packets on until an end fails.
func hand(to, from int, delay time.Duration) error {
	line := make(chan packet, onWire)
	failed := make(chan error, 1)
	go func() { // ends with the process
		onTime()
		for p := range line {
			sleepUntil(p.due)
			_, err := unix.Write(to, (*p.data)[:p.n])
			release(p)
			if err != nil && !passing(err) {
				failed <- err
				return
			}
		}
	}()
	onTime()
	buf := make([]byte, largePacket)
	for {
		n, err := unix.Read(from, buf)
		if err != nil {
			if passing(err) {
				continue
			}
			return err
		}
		p := packet{data: buffer(n), n: n, due: time.Now().Add(delay)}
		copy(*p.data, buf[:n])
		select {
		case line <- p:
		case err := <-failed:
			return err
		}
	}
}

// onTime gives a goroutine a thread that wakes up when it asked to: hosts that
// compute must not make the line between them longer. Without the permission the
// line is late at times.
func onTime() {
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -15) // of this thread
}

// passing errors lose a packet at most: the interface is not up yet, or has no
// memory for it.
func passing(err error) bool {
	return errors.Is(err, unix.EINTR) || errors.Is(err, unix.EIO) || errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EINVAL)
}

func buffer(n int) *[]byte {
	if n <= smallPacket {
		return smallPackets.Get().(*[]byte)
	}
	return largePackets.Get().(*[]byte)
}

func release(p packet) {
	if cap(*p.data) == smallPacket {
		smallPackets.Put(p.data)
		return
	}
	largePackets.Put(p.data)
}

// sleepUntil sleeps in the kernel: the runtime's timers are only good to a
// millisecond where a thread has nothing else to do.
func sleepUntil(due time.Time) {
	for left := time.Until(due); left > 0; left = time.Until(due) {
		t := unix.NsecToTimespec(int64(left))
		_ = unix.Nanosleep(&t, nil)
	}
}
